//go:build unix

package process

import (
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// blocked is a writer that waits.
type blocked chan struct{}

func (b blocked) Write(p []byte) (int, error) { <-b; return len(p), nil }

func TestSlowReaderIsNoSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &output{began: time.Now()}
		time.Sleep(time.Hour)
		if p.silence() != time.Hour {
			t.Errorf("an hour without output is a silence of %v", p.silence())
		}
		to := make(blocked)
		go p.pass([]byte("text"), to)
		synctest.Wait()
		time.Sleep(time.Hour)
		if p.silence() != 0 {
			t.Error("waiting for the reader counts as silence of the child")
		}
		to <- struct{}{}
		synctest.Wait()
		time.Sleep(time.Second)
		if p.silence() != time.Second {
			t.Errorf("a second after the reader took its output: %v", p.silence())
		}
	})
}

// A pump whose deadline passed while it waited for a slow client reads what the command left in the pipe,
// also where another process holds the pipe open.
func TestPumpReadsWhatIsLeft(t *testing.T) {
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	defer in.Close()
	text := strings.Repeat("0123456\n", 6<<10)
	if _, err := in.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := out.SetReadDeadline(time.Now()); err != nil {
		t.Fatal(err)
	}
	var printed strings.Builder
	new(output).pump(out, &printed)
	if printed.String() != text {
		t.Errorf("%d bytes are passed on, want %d", printed.Len(), len(text))
	}
}

// The rest of the output may be taken by somebody else, or thrown away at a terminal's other end, before it
// is read: no pump waits for it.
func TestPumpDoesNotWaitForWhatWasTaken(t *testing.T) {
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	defer in.Close()
	raw, err := out.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	defer close(over)
	go func() {
		for b := make([]byte, 1); ; {
			select {
			case <-over:
				return
			default:
				_ = raw.Control(func(fd uintptr) { _, _ = syscall.Read(int(fd), b) })
			}
		}
	}()
	for range 5000 {
		_, _ = in.WriteString("x")
		_ = out.SetReadDeadline(time.Now())
		ended := make(chan struct{})
		go func() { new(output).pump(out, io.Discard); close(ended) }()
		select {
		case <-ended:
		case <-time.After(watchdog):
			t.Fatal("it waits")
		}
	}
}
