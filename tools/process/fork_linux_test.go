package process

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A program whose file does not answer, here because somebody has a lease on it, fails alone and in time, and
// so do those that wait for it; the ends of others are seen. Later it is started after all: it is killed, and
// the next one starts. One processor is enough.
func TestStartThatHangs(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	shell, err := os.ReadFile("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, shell, 0o700); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(program, os.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	f := &forker{patience: watchdog}
	other := exec.Command("/bin/sh", "-c", "exit 0")
	if err := f.start(other); err != nil {
		t.Fatal(err)
	}
	f.patience = 200 * time.Millisecond
	if _, err := unix.FcntlInt(file.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Skipf("no lease: %v", err)
	}
	for _, want := range []string{"it has not started in 200ms", "it waits for " + program} {
		if err := f.start(exec.Command(program, "-c", "sleep 600")); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if state, err := f.wait(other.Process); err != nil || !state.Success() {
		t.Errorf("another child: %v %v", state, err)
	}
	if _, err := unix.FcntlInt(file.Fd(), unix.F_SETLEASE, unix.F_UNLCK); err != nil {
		t.Fatal(err)
	}
	f.patience = watchdog
	next := exec.Command("/bin/sh", "-c", "exit 0")
	if err := f.start(next); err != nil {
		t.Fatal(err)
	}
	if state, err := f.wait(next.Process); err != nil || !state.Success() {
		t.Errorf("the next child: %v %v", state, err)
	}
	for deadline := time.Now().Add(watchdog); ; time.Sleep(time.Millisecond) {
		f.mu.Lock()
		left, thread := f.children, f.starts != nil
		f.mu.Unlock()
		if left == 0 && !thread {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d children are left, the thread too: %t", left, thread)
		}
	}
}
