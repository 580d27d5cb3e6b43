package e2e

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"
)

// httpServer is the program serving HTTP alone.
type httpServer struct {
	url string
	cmd *exec.Cmd
	log syncBuffer
}

// serveHTTP starts the program, which must end well at the end of the test.
func serveHTTP(t *testing.T, args ...string) *httpServer {
	t.Helper()
	s := &httpServer{cmd: racedCommand(t, append(args, "--no-stdio", "--http", ":0", "--log-format", "json")...)}
	s.cmd.Stderr = &s.log
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		late := time.AfterFunc(watchdog, func() { _ = s.cmd.Process.Kill() })
		defer late.Stop()
		_ = s.cmd.Process.Signal(syscall.SIGTERM)
		if err := s.cmd.Wait(); err != nil {
			t.Errorf("%v\n%s", err, &s.log)
		}
	})
	address := regexp.MustCompile(`"address":"(127\.0\.0\.1:[0-9]+)"`)
	for deadline := time.Now().Add(watchdog); s.url == ""; time.Sleep(5 * time.Millisecond) {
		if m := address.FindStringSubmatch(s.log.String()); m != nil {
			s.url = "http://" + m[1] + "/mcp"
		} else if time.Now().After(deadline) {
			t.Fatalf("no address:\n%s", &s.log)
		}
	}
	return s
}

// The official SDKs work with the program over HTTP as over stdio, in both eras.
func TestInteropHTTP(t *testing.T) {
	t.Parallel()
	ts, ts2 := filepath.Join("testdata", "interop", "ts"), filepath.Join("testdata", "interop", "ts2")
	npmCI(t, ts)
	npmCI(t, ts2)
	client := goClient(t)
	for _, c := range []struct {
		name, dir string
		command   []string
	}{
		{"go", goDir, []string{client}},
		{"typescript", ts, []string{"node", "client.mjs"}},
		{"typescript2", ts2, []string{"node", "http.mjs"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			config, err := filepath.Abs(writeConfig(t, interopConfig)[1])
			if err != nil {
				t.Fatal(err)
			}
			s := serveHTTP(t, "--selftest", "--config", config)
			interopWith(t, s.url, config, c.dir, c.command[0], c.command[1:]...)
		})
	}
}
