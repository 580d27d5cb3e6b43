package redis

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// server is a Redis server of a test's own.
type server struct {
	dir  string
	port string
	cmd  *exec.Cmd
}

// startServer runs one on a free port, until the end of the test. more are lines of its config.
func startServer(t testing.TB, more ...string) *server {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	_ = listener.Close()
	s := &server{dir: t.TempDir(), port: port}
	config := "bind 127.0.0.1\nport " + port + "\ndir " + s.dir +
		"\nsave \"\"\nappendonly yes\nappendfsync no\n"
	for _, line := range more {
		config += line + "\n"
	}
	if err := os.WriteFile(filepath.Join(s.dir, "redis.conf"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	s.start(t)
	t.Cleanup(func() { s.stop(t) })
	return s
}

// program is the server that tests run: another one than redis-server may be named by RUNNEL_TEST_REDIS.
func program(t testing.TB) string {
	if testing.Short() {
		t.Skip("it takes a server: make race runs it")
	}
	name := os.Getenv("RUNNEL_TEST_REDIS")
	if name == "" {
		name = "redis-server"
	}
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not installed: it is in Debian's package redis-server", name)
	}
	return path
}

func (s *server) start(t testing.TB) {
	t.Helper()
	s.cmd = exec.Command(program(t), filepath.Join(s.dir, "redis.conf"))
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		err := s.ping()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the server is not ready: " + err.Error())
		}
	}
}

// ping is nil once the server answers, be it that nobody may ask it. Whoever else listened at its port for a
// moment, such as another test that looks for a free one, does not.
func (s *server) ping() error {
	c, err := net.DialTimeout("tcp", s.address(), time.Second)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(time.Second)) // never fails for an open connection
	if _, err := c.Write([]byte("PING\r\n")); err != nil {
		return err
	}
	answer, err := bufio.NewReader(c).ReadString('\n')
	if err == nil && answer != "+PONG\r\n" && !strings.HasPrefix(answer, "-NOAUTH ") {
		err = fmt.Errorf("it says %q", answer)
	}
	return err
}

func (s *server) stop(t testing.TB) {
	if s.cmd.ProcessState != nil {
		return
	}
	_ = s.cmd.Process.Kill()
	if err := s.cmd.Wait(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Error(err)
	}
}

func (s *server) signal(t testing.TB, signal syscall.Signal) {
	t.Helper()
	if err := s.cmd.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
}

// address of a server for a config.
func (s *server) address() string { return "127.0.0.1:" + s.port }
