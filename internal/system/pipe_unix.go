//go:build unix

package system

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Pipe makes a pipe whose reader has deadlines. A child may inherit the writer.
func Pipe() (read, write *os.File, err error) { return os.Pipe() }

// Widen makes a pipe larger, on Linux. A file that is not a pipe stays as it is, and so does a pipe of a user
// who has too many large ones.
func Widen(pipe *os.File, size int) {
	const setPipeSize = 1031 // F_SETPIPE_SZ
	if raw, err := pipe.SyscallConn(); err == nil && runtime.GOOS == "linux" {
		_ = raw.Control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, setPipeSize, size) })
	}
}

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

// OutputCodePage returns the code page of Windows in which programs write to a pipe; 0 on Unix, where they
// write UTF-8.
func OutputCodePage() int { return 0 }
