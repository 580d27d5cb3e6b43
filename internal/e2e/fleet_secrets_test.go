package e2e

import (
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// tap stands between the program and a server, and takes all that goes through, each connection and direction
// for itself.
type tap struct {
	mu  sync.Mutex
	all []*syncBuffer
}

// listen returns the address of a tap that leads to a server.
func (tp *tap) listen(t *testing.T, server string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	through := func(from, to net.Conn) {
		seen := &syncBuffer{}
		tp.mu.Lock()
		tp.all = append(tp.all, seen)
		tp.mu.Unlock()
		_, _ = io.Copy(io.MultiWriter(seen, to), from)
		_, _ = from.Close(), to.Close()
	}
	go func() {
		for {
			here, err := l.Accept()
			if err != nil {
				return
			}
			there, err := net.Dial("tcp", server)
			if err != nil {
				_ = here.Close()
				continue
			}
			go through(here, there)
			go through(there, here)
		}
	}()
	return l.Addr().String()
}

// seen is all that has gone through.
func (tp *tap) seen() string {
	tp.mu.Lock()
	defer tp.mu.Unlock()
	var all strings.Builder
	for _, b := range tp.all {
		all.WriteString(b.String() + "\n")
	}
	return all.String()
}

// lists waits until the program lists the tool leak.
func lists(t *testing.T, program string, env, config []string) {
	t.Helper()
	for deadline := time.Now().Add(watchdog); ; time.Sleep(100 * time.Millisecond) {
		cmd := exec.Command(program, append([]string{"tools"}, config...)...)
		cmd.Env = env
		if out, _ := cmd.CombinedOutput(); strings.Contains(string(out), "leak") {
			return
		} else if time.Now().After(deadline) {
			t.Fatalf("%s", out)
		}
	}
}

// leaks calls the tools that print secrets, and fails the test if one comes out. Some must have come as ***.
func (tp *tap) leaks(t *testing.T, program string, env, config []string) {
	t.Helper()
	for _, args := range [][]string{{"leak"}, {"json"}, {"summary"}, {"lines"}, {"notes"},
		{"leak", "--mode=task"}, {"notes", "--task"}, {"told", "text=x", "kind=no"}} {
		cmd := exec.Command(program, append(append([]string{"call", "-o", "ndjson"}, args...), config...)...)
		cmd.Env = env
		out, _ := cmd.CombinedOutput() // some fail, as they are to
		noSecret(t, strings.Join(args, " "), string(out))
		if (args[0] == "leak" || args[0] == "json") && !strings.Contains(string(out), "***") {
			t.Errorf("%q: %s", args, out)
		}
	}
	for _, args := range [][]string{{"tools"}, {"tools", "leak"}, {"tasks", "list", "-o", "json"}} {
		cmd := exec.Command(program, append(args, config...)...)
		cmd.Env = env
		out, err := cmd.CombinedOutput()
		if noSecret(t, args[0], string(out)); err != nil || !strings.Contains(string(out), "leak") {
			t.Errorf("%q: %v: %s", args, err, out)
		}
	}
	seen := tp.seen()
	if noSecret(t, "what went to the server", seen); !strings.Contains(seen, "its error: ***") {
		t.Error("the output has not gone through")
	}
}

// A secret of a worker's config does not leave the worker: it is in nothing that goes to NATS or is kept
// there, and the front, whose config names no secrets, does not show it.
func TestSecretsOfWorkers(t *testing.T) {
	t.Parallel()
	program, tp := builtProgram(t), &tap{}
	url := "nats://" + tp.listen(t, strings.TrimPrefix(startNATS(t), "nats://"))
	env := append(environ(t), noConfig, "RUNNEL_STATE="+url)
	worker := exec.Command(program,
		append([]string{"work", "--slots", "4", "--class", "builds", "--log-level", "debug"},
			writeConfig(t, leakTools+secretsSection)...)...)
	var log syncBuffer
	worker.Env, worker.Stderr = env, &log
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	front := writeConfig(t, "fleet: {classes: [builds]}")
	lists(t, program, env, front)
	tp.leaks(t, program, env, front)
	_ = worker.Process.Signal(syscall.SIGTERM)
	if err := worker.Wait(); err != nil {
		t.Error(err)
	}
	noSecret(t, "the worker's log", log.String())
}

// On Redis nothing that a config names as secret goes to the server.
func TestSecretsOnRedis(t *testing.T) {
	t.Parallel()
	const password = "of-this-test"
	tp := &tap{}
	creds := filepath.Join(t.TempDir(), "creds")
	if err := os.WriteFile(creds, []byte("runnel "+password+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := append(environ(t), noConfig, "RUNNEL_STATE=redis://"+tp.listen(t, redisServer(t, password)),
		"RUNNEL_REDIS_CREDS="+creds)
	tp.leaks(t, builtProgram(t), env, writeConfig(t, leakTools+secretsSection))
}
