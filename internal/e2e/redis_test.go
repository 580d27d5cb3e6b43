package e2e

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// redisServer runs a Redis server, of which only user runnel may use the keys runnel:*, and returns its
// address.
func redisServer(t *testing.T, password string) string {
	t.Helper()
	program, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("redis-server is not installed: it is in Debian's package redis-server")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_, port, _ := net.SplitHostPort(address)
	_ = listener.Close()
	config := filepath.Join(t.TempDir(), "redis.conf") // not in the arguments, which others can read
	lines := "bind 127.0.0.1\nport " + port + "\nsave \"\"\nuser default off\nuser runnel on >" + password +
		" ~runnel:* &runnel:* +@all\n"
	if err := os.WriteFile(config, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, config)
	cmd.Dir = t.TempDir()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	var dialer net.Dialer
	for deadline := time.Now().Add(watchdog); ; time.Sleep(10 * time.Millisecond) {
		c, err := dialer.DialContext(context.Background(), "tcp", address)
		if err == nil {
			_ = c.Close()
			return address
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// Two runnels on one Redis server. Its password stands in no arguments, no output and no log.
func TestRedisState(t *testing.T) {
	t.Parallel()
	const password = "s3cret-of-this-test"
	address := redisServer(t, password)
	creds := filepath.Join(t.TempDir(), "creds")
	if err := os.WriteFile(creds, []byte("runnel "+password+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	program := builtProgram(t)
	env := append(environ(t), "RUNNEL_STATE=redis://"+address, "RUNNEL_REDIS_CREDS="+creds)
	shareState(t, program, env)

	run := func(says string, env []string, args ...string) {
		t.Helper()
		cmd := exec.Command(program, args...)
		cmd.Env = append(env, noConfig)
		out, _ := cmd.CombinedOutput()
		if !strings.Contains(string(out), says) || strings.Contains(string(out), "s3cret") {
			t.Errorf("%q: %s", args, out)
		}
	}
	run("ok     state: redis://"+address+": ", env, "doctor")
	run("appendonly", env, "doctor")
	wrong := filepath.Join(t.TempDir(), "creds")
	if err := os.WriteFile(wrong, []byte("runnel not-the-s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run("WRONGPASS", append(env, "RUNNEL_REDIS_CREDS="+wrong), "doctor")
	inURL := append(env, "RUNNEL_STATE=redis://runnel:"+password+"@"+address)
	for _, args := range [][]string{{"doctor"}, {"tasks", "list"}, {"config", "show"}, {"call", "echo"}} {
		run("", inURL, args...)
	}
	run("the URL of a state holds no credentials", inURL, "tasks", "list")
}
