package main

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestPolled(t *testing.T) {
	ends := make([]int, 2)
	if err := syscall.Pipe(ends); err != nil {
		t.Fatal(err)
	}
	inherited, other := os.NewFile(uintptr(ends[0]), "in"), os.NewFile(uintptr(ends[1]), "out")
	defer other.Close()
	in, restore := polled(inherited)
	if err := in.SetReadDeadline(time.Now()); err != nil {
		t.Errorf("an inherited pipe takes no deadline: %v", err)
	}
	if _, err := in.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a Read at its deadline: %v", err)
	}
	restore()
	if flags, err := unix.FcntlInt(uintptr(ends[0]), unix.F_GETFL, 0); err != nil || flags&unix.O_NONBLOCK != 0 {
		t.Errorf("the pipe was left with flags %#x (%v)", flags, err)
	}

	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if same, _ := polled(file); same != file {
		t.Error("a file was given to the poller")
	}
}

// A signal that ends a process at its start leaves the pipe as it was: others share it.
func TestEndedAtTheStart(t *testing.T) {
	t.Parallel()
	config := writeConfig(t, "tools: {a: {command: [echo]}}")
	ends := make([]int, 2)
	if err := syscall.Pipe(ends); err != nil {
		t.Fatal(err)
	}
	in, other := os.NewFile(uintptr(ends[0]), "in"), os.NewFile(uintptr(ends[1]), "out")
	defer in.Close()
	defer other.Close()
	for n := range 200 {
		args, signals := append(config, "--state", "memory"), []os.Signal{syscall.SIGTERM}
		switch n % 3 {
		case 0:
			signals = []os.Signal{syscall.SIGHUP, syscall.SIGTERM} // the first is for reading the config again, and ends nothing soon
		case 1:
			args, signals = append([]string{"tools"}, args...), []os.Signal{syscall.SIGHUP}
		}
		cmd := programCommand(t, args...)
		cmd.Stdin = in
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Duration(n) * 50 * time.Microsecond)
		for _, s := range signals {
			_ = cmd.Process.Signal(s)
		}
		end := cmd.Wait()
		if flags, err := unix.FcntlInt(uintptr(ends[0]), unix.F_GETFL, 0); err != nil || flags&unix.O_NONBLOCK != 0 {
			t.Fatalf("after %d µs (%v) the pipe was left with flags %#x (%v)", n*50, end, flags, err)
		}
	}
}
