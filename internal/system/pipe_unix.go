//go:build unix

package system

import (
	"os"

	"golang.org/x/sys/unix"
)

// Pipe makes a pipe whose reader has deadlines. A child may inherit the writer.
func Pipe() (read, write *os.File, err error) { return os.Pipe() }

// Readable reports whether a pipe, a socket or a terminal has unread data. f may be nil.
func Readable(f *os.File) bool {
	raw, err := f.SyscallConn()
	if err != nil { // also for a nil f
		return false
	}
	ready := []unix.PollFd{{Events: unix.POLLIN}}
	_ = raw.Control(func(fd uintptr) { // fails when the file is closed
		ready[0].Fd = int32(fd)
		_, _ = unix.Poll(ready, 0)
	})
	return ready[0].Revents&unix.POLLIN != 0
}
