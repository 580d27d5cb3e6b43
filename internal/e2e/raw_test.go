package e2e

import (
	"bufio"
	"bytes"
	"io"
	"testing"
	"time"
)

// raw is a process whose client writes bytes, not messages.
type raw struct {
	pid   int
	in    io.WriteCloser
	lines *bufio.Reader
}

// newRaw starts the program and opens a session.
func newRaw(t *testing.T, args ...string) *raw {
	t.Helper()
	cmd := programCommand(t, args...)
	in, out := pipes(t, cmd)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	r := &raw{pid: cmd.Process.Pid, in: in, lines: bufio.NewReaderSize(out, 64<<10)}
	_, _ = io.WriteString(in, initialize+"\n")
	r.take(t)
	return r
}

// take returns the next line that is no notification.
func (r *raw) take(t *testing.T) []byte {
	t.Helper()
	type read struct {
		line []byte
		err  error
	}
	got := make(chan read, 1)
	go func() {
		for {
			line, err := r.lines.ReadBytes('\n')
			if err != nil || !bytes.Contains(line, []byte(`"method":"notifications/`)) {
				got <- read{line, err}
				return
			}
		}
	}()
	select {
	case g := <-got:
		if g.err != nil {
			t.Fatal(g.err)
		}
		return g.line
	case <-time.After(watchdog):
		t.Fatal("no answer")
	}
	return nil
}
