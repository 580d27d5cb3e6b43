//go:build unix

package processtest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// Watchdog is how long a test waits for what must happen soon: generous, because a test machine may be busy.
const Watchdog = 2 * time.Minute

// ChildVar is the environment variable that names the child which a test binary becomes.
const ChildVar = "RUNNEL_TEST_CHILD"

// Main is the TestMain of a package: it runs the child that ChildVar names, or else the tests. It fails if
// they leave a child.
func Main(m *testing.M, children map[string]func(args []string)) {
	if child := children[os.Getenv(ChildVar)]; child != nil {
		child(os.Args[1:])
		os.Exit(0)
	}
	code := m.Run()
	if code == 0 && !childrenEnd() {
		fmt.Fprintln(os.Stderr, "FAIL: a child process is left")
		code = 1
	}
	os.Exit(code)
}

// childrenEnd waits until this process has no children, the guard included. It reports false if some are
// left.
func childrenEnd() bool {
	deadline := time.Now().Add(Watchdog)
	for range time.Tick(10 * time.Millisecond) {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if errors.Is(err, syscall.ECHILD) {
			return true
		}
		if pid == 0 && time.Now().After(deadline) {
			return false
		}
	}
	return false
}

// Env is the environment with which the test binary becomes a child.
func Env(name string) map[string]string {
	return map[string]string{ChildVar: name, "GORACE": "atexit_sleep_ms=0"}
}

// NewGate makes a named pipe. A child that reads it waits until the test writes to it.
func NewGate(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "gate")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A Lifeline shows when every process that has opened it has ended, zombies too. It is a named pipe.
type Lifeline struct {
	Path string

	t    *testing.T
	read *os.File
}

// NewLifeline makes a lifeline that children open for writing by its Path.
func NewLifeline(t *testing.T) *Lifeline {
	t.Helper()
	path := NewGate(t)
	read, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = read.Close() })
	return &Lifeline{Path: path, t: t, read: read}
}

// Gone waits until all processes that have opened the lifeline have ended.
func (l *Lifeline) Gone() {
	l.t.Helper()
	_ = l.read.SetReadDeadline(time.Now().Add(Watchdog))
	if _, err := io.ReadAll(l.read); err != nil {
		l.t.Fatalf("a process is left: %v", err)
	}
}

// IsHeld fails the test if no process has the lifeline open any more.
func (l *Lifeline) IsHeld() {
	l.t.Helper()
	// A deadline in the past would fail the read without a look at the pipe.
	_ = l.read.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	if _, err := l.read.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		l.t.Errorf("a process was killed that should live: %v", err)
	}
}
