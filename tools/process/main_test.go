//go:build unix

package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// watchdog is how long a test waits for what must happen soon: generous, because a test machine may be busy.
const watchdog = 2 * time.Minute

// hold opens the lifeline, says so, and goes on for longer than any test.
const hold = `exec 9>"$LINE"; echo ready; sleep 600; sleep 600`

// childVar makes the test binary one of the children.
const childVar = "RUNNEL_TEST_CHILD"

var children = map[string]func(args []string){}

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

// shell is a script that can be started.
func shell(script string, vars ...string) *Spec {
	env := append(os.Environ(), childVar+"=")
	return &Spec{Path: "/bin/sh", Argv: []string{"sh", "-c", script}, Dir: "/", Env: append(env, vars...), Stderr: "merge"}
}

// holds starts hold, and returns when the lifeline is open. stop returns when nothing of it is left.
func holds(t *testing.T, line *lifeline) (stop func()) {
	t.Helper()
	child, err := Start(shell(hold, "LINE="+line.path))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	out, to := io.Pipe()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		child.Run(ctx, to, io.Discard, Limits{})
		_ = to.Close()
	}()
	if said, err := bufio.NewReader(out).ReadString('\n'); err != nil || said != "ready\n" {
		t.Errorf("it says %q, %v", said, err)
	}
	_ = out.Close()
	return func() { cancel(); <-ended }
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

// lifeline tells when every process that has it open has ended, zombies and all: a named pipe.
type lifeline struct {
	t    *testing.T
	path string
	read *os.File
}

func newLifeline(t *testing.T) *lifeline {
	t.Helper()
	path := filepath.Join(t.TempDir(), "lifeline")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
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
