package term

import (
	"io"
	"sync"
	"testing"

	"github.com/creack/pty"
)

// Who leaves a call by a second Ctrl-C ends its view, whether or not the call does so in that moment.
func TestViewEndsOnce(t *testing.T) {
	terminal, stderr, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	defer stderr.Close()
	for range 1000 {
		v := NewView(io.Discard, stderr, "auto", "xterm")
		var ends sync.WaitGroup
		ends.Go(v.End)
		ends.Go(v.End)
		ends.Wait()
	}
}
