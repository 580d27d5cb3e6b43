package rpc

import (
	"io"
	"syscall"

	"golang.org/x/sys/unix"
)

// nonblocking returns a function that writes to out what can be written without waiting and tells how much that was, nil if out is
// no file descriptor of that kind (O_NONBLOCK). An error shows when the rest is written in the usual way. Whoever shares out must leave
// O_NONBLOCK as it is: without it, a client that does not read would hold up who writes.
func nonblocking(out io.Writer) func([]byte) int {
	file, ok := out.(syscall.Conn)
	if !ok {
		return nil
	}
	conn, err := file.SyscallConn()
	if err != nil {
		return nil
	}
	flags := 0
	if conn.Control(func(fd uintptr) { flags, err = unix.FcntlInt(fd, unix.F_GETFL, 0) }) != nil || err != nil || flags&unix.O_NONBLOCK == 0 {
		return nil
	}
	return func(b []byte) (n int) {
		_ = conn.Write(func(fd uintptr) bool { // fails when the file is closed
			n, _ = syscall.Write(int(fd), b)
			return true
		})
		return max(n, 0)
	}
}
