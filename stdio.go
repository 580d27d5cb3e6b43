package main

import (
	"os"
	"runtime"
	"syscall"
)

// polled gives a pipe or socket that the process inherited to the runtime's poller. A blocked Read then costs no thread
// that the scheduler has to notice and replace (a ping's round trip takes half the time), and a deadline can end it. Files
// and terminals stay as they are. restore undoes it: O_NONBLOCK belongs to the pipe's end, which the processes
// that this one was started by, or that it leaves behind, may share.
func polled(f *os.File) (file *os.File, restore func()) {
	info, err := f.Stat()
	if err != nil || info.Mode()&(os.ModeNamedPipe|os.ModeSocket) == 0 {
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
