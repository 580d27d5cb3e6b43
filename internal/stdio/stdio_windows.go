package stdio

import (
	"bytes"
	"os"
	"time"
)

// Polled does nothing: on Windows, a pipe that is not polled already cannot be.
func Polled(f *os.File) (file *os.File, restore func()) { return f, func() {} }

// SamePipe reports false: on Windows, pipes have no numbers to compare. Writes to them block anyway.
func SamePipe(_, _ *os.File) bool { return false }

// pipeRoom is how much is written at once.
const pipeRoom = 4096

// outlet is a pipe that may be full. Only a write that does not return shows that: it goes on in a goroutine,
// one at most, which ends when the pipe is read or closed.
type outlet struct {
	file *os.File
	idle chan struct{} // capacity 1; full while there is no such goroutine
}

func newOutlet(f *os.File) outlet {
	o := outlet{f, make(chan struct{}, 1)}
	o.idle <- struct{}{}
	return o
}

// room reports whether a write can begin within a time.
func (o outlet) room(within time.Duration) bool {
	select {
	case <-o.idle:
		o.idle <- struct{}{}
		return true
	case <-time.After(within):
		return false
	}
}

// Write waits for a write that has begun before, and for its own no longer than logPatience.
func (o outlet) Write(p []byte) (int, error) {
	<-o.idle
	text, written := bytes.Clone(p), make(chan error, 1)
	go func() {
		_, err := o.file.Write(text)
		written <- err
		o.idle <- struct{}{}
	}()
	select {
	case err := <-written:
		return len(p), err
	case <-time.After(logPatience):
		return len(p), nil
	}
}
