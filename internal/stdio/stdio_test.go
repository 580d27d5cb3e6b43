//go:build unix

package stdio

import (
	"errors"
	"io"
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
	in, restore := Polled(inherited)
	if err := in.SetReadDeadline(time.Now()); err != nil {
		t.Errorf("an inherited pipe takes no deadline: %v", err)
	}
	if _, err := in.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a Read at its deadline: %v", err)
	}
	restore()
	if flags, err := unix.FcntlInt(uintptr(ends[0]), unix.F_GETFL, 0); err != nil ||
		flags&unix.O_NONBLOCK != 0 {
		t.Errorf("the pipe was left with flags %#x (%v)", flags, err)
	}

	for range 2 { // as a runnel that was killed leaves it
		if err := errors.Join(syscall.Pipe(ends), syscall.SetNonblock(ends[0], true),
			syscall.SetNonblock(ends[1], true)); err != nil {
			t.Fatal(err)
		}
		inherited, other := os.NewFile(uintptr(ends[0]), "in"), os.NewFile(uintptr(ends[1]), "out")
		in, restoreIn := Polled(inherited)
		out, restoreOut := Polled(other)
		const long = 1 << 20 // more than a pipe holds: both wait
		written := make(chan error, 1)
		go func() {
			_, err := out.Write(make([]byte, long))
			written <- err
		}()
		if _, err := io.ReadFull(in, make([]byte, long)); err != nil {
			t.Errorf("a pipe that is non-blocking at the start: %v", err)
		}
		if err := <-written; err != nil {
			t.Errorf("writing to it: %v", err)
		}
		restoreIn()
		restoreOut()
		_, _ = inherited.Close(), other.Close()
	}

	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if same, _ := Polled(file); same != file {
		t.Error("a file was given to the poller")
	}
}
