package term

import (
	"io"
	"sync"
	"testing"

	"github.com/creack/pty"
)

// A user who leaves a call by a second Ctrl-C ends its view, whether or not the call ends it at the same
// moment.
func TestViewEndsOnce(t *testing.T) {
	terminal, stderr, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	defer stderr.Close()
	for range 1000 {
		v := NewView(io.Discard, stderr, "auto", func(string) string { return "" })
		var ends sync.WaitGroup
		ends.Go(v.End)
		ends.Go(v.End)
		ends.Wait()
	}
}
