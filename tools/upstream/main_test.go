//go:build unix

package upstream

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"runnel/tools/config"
)

// watchdog is how long a test waits for what must happen soon: generous, because a test machine may be busy.
const watchdog = 2 * time.Minute

// childVar makes the test binary one of the servers below.
const childVar = "RUNNEL_TEST_CHILD"

// children are servers, which the test binary is too.
var children = map[string]func(args []string){"upstream": upstreamMain, "full": fullMain}

func TestMain(m *testing.M) {
	if child := children[os.Getenv(childVar)]; child != nil {
		child(os.Args[1:])
		os.Exit(0)
	}
	code := m.Run()
	if code == 0 {
		code = noChildren()
	}
	os.Exit(code)
}

// noChildren waits until this process has no child any more, the guard included.
func noChildren() int {
	deadline := time.Now().Add(watchdog)
	for range time.Tick(10 * time.Millisecond) {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if errors.Is(err, syscall.ECHILD) {
			break
		}
		if pid == 0 && time.Now().After(deadline) {
			fmt.Fprintln(os.Stderr, "FAIL: a child process is left")
			return 1
		}
	}
	return 0
}

// child is a server that the test binary is.
func child(name string, args ...string) config.Upstream {
	return config.Upstream{Command: append([]string{os.Args[0]}, args...), Env: map[string]string{childVar: name, "GORACE": "atexit_sleep_ms=0"}}
}

// newGate makes a named pipe on which a server, which knows it as $GATE, waits until it is written to.
func newGate(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "gate")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// lifeline tells when every process that has it open has ended, zombies and all: a named pipe.
type lifeline struct {
	t    *testing.T
	path string
	read *os.File
}

func newLifeline(t *testing.T) *lifeline {
	t.Helper()
	path := newGate(t)
	read, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = read.Close() })
	return &lifeline{t, path, read}
}

// gone waits for the end of those who have opened the lifeline by now.
func (l *lifeline) gone() {
	l.t.Helper()
	_ = l.read.SetReadDeadline(time.Now().Add(watchdog))
	if _, err := io.ReadAll(l.read); err != nil {
		l.t.Fatalf("a process is left: %v", err)
	}
}

// isHeld tells that some who have opened the lifeline are still there.
func (l *lifeline) isHeld() {
	l.t.Helper()
	_ = l.read.SetReadDeadline(time.Now().Add(100 * time.Millisecond)) // one that has passed would be told of without a look
	if _, err := l.read.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		l.t.Errorf("a process was killed that was not to be: %v", err)
	}
}
