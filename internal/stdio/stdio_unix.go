//go:build unix

package stdio

import (
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Polled hands an inherited pipe or socket to the runtime's poller. A blocked Read then takes no thread that
// the scheduler has to notice and replace (a ping's round trip takes half the time), and a deadline can end
// it. Files and terminals stay as they are.
//
// restore undoes it: O_NONBLOCK belongs to the end of the pipe, which other processes, such as the parent,
// may share. A pipe that is non-blocking already, as a runnel that was killed leaves it, the runtime polls
// from the start: it takes no second file with that descriptor.
func Polled(f *os.File) (file *os.File, restore func()) {
	if _, ok := pipe(f); !ok || f.SetDeadline(time.Time{}) == nil {
		return f, func() {}
	}
	fd := int(f.Fd()) // Fd makes it blocking
	if syscall.SetNonblock(fd, true) != nil {
		return f, func() {}
	}
	return os.NewFile(uintptr(fd), f.Name()), func() {
		_ = syscall.SetNonblock(fd, false)
		runtime.KeepAlive(f) // else the collector would close the descriptor
	}
}

// SamePipe reports whether two files are the same pipe or socket. On NetBSD and OpenBSD, which do not number
// pipes, it reports false.
func SamePipe(a, b *os.File) bool {
	one, ok := pipe(a)
	other, too := pipe(b)
	return ok && too && os.SameFile(one, other) && one.Sys().(*syscall.Stat_t).Ino != 0
}

// pipeRoom is POSIX's PIPE_BUF: when poll reports room, this many bytes can be written to a pipe without
// waiting, and no line of another process comes between them.
var pipeRoom = func() int {
	if runtime.GOOS == "linux" {
		return 4096
	}
	return 512 // POSIX's minimum
}()

// outlet is a pipe that may be full.
type outlet struct{ *os.File }

func newOutlet(f *os.File) outlet { return outlet{f} }

// room reports whether pipeRoom bytes can be written within a time. A pipe without a reader has room: the
// write returns the error.
func (o outlet) room(within time.Duration) bool {
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(o.Fd()), Events: unix.POLLOUT}},
			int(within.Milliseconds()))
		if err != unix.EINTR {
			return n > 0 || err != nil
		}
	}
}
