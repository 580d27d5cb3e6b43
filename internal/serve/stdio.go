package serve

import (
	"os"
	"runtime"
	"syscall"
)

// Polled gives a pipe or socket that the process inherited to the runtime's poller. A blocked Read then costs no thread
// that the scheduler has to notice and replace (a ping's round trip takes half the time), and a deadline can end it. Files
// and terminals stay as they are. restore undoes it: O_NONBLOCK belongs to the end of the pipe, which
// other processes may share, such as the parent.
func Polled(f *os.File) (file *os.File, restore func()) {
	if _, ok := pipe(f); !ok {
		return f, func() {}
	}
	fd := int(f.Fd()) // which makes it blocking, if it was not
	if syscall.SetNonblock(fd, true) != nil {
		return f, func() {}
	}
	return os.NewFile(uintptr(fd), f.Name()), func() {
		_ = syscall.SetNonblock(fd, false)
		runtime.KeepAlive(f) // or the collector would close the descriptor
	}
}

// pipe describes a file that is a pipe or socket.
func pipe(f *os.File) (info os.FileInfo, ok bool) {
	info, err := f.Stat()
	return info, err == nil && info.Mode()&(os.ModeNamedPipe|os.ModeSocket) != 0
}

// SamePipe reports whether two files are one pipe or socket. NetBSD and OpenBSD do not number pipes, so all look
// alike: there it reports false.
func SamePipe(a, b *os.File) bool {
	one, ok := pipe(a)
	other, too := pipe(b)
	return ok && too && os.SameFile(one, other) && one.Sys().(*syscall.Stat_t).Ino != 0
}
