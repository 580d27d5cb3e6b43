package rpc

import (
	"io"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// input is what a session reads, and how the writer wakes who reads it. The runtime looks for what can be read when a processor has
// nothing to do, which is seldom while a task streams flat out: the slow pings waited longer to be noticed than for anything else.
// So who has written much looks as well (see nudge).
type input struct {
	io.Reader
	file pollable
	conn syscall.RawConn // nil if the runtime does not poll it

	mu     sync.Mutex
	nudged bool // there is a deadline, which again takes back
	ended  bool // the deadline is to stay
}

type pollable interface {
	syscall.Conn
	SetReadDeadline(time.Time) error
}

func newInput(r io.Reader) *input {
	in := &input{Reader: r}
	file, ok := r.(pollable)
	if !ok || file.SetReadDeadline(time.Time{}) != nil {
		return in
	}
	if conn, err := file.SyscallConn(); err == nil {
		in.file, in.conn = file, conn
	}
	return in
}

// Read implements io.Reader.
func (in *input) Read(p []byte) (int, error) {
	for {
		n, err := in.Reader.Read(p)
		if n > 0 || err == nil || !in.again() {
			return n, err
		}
	}
}

// again reports whether a Read has ended because of a nudge.
func (in *input) again() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.nudged || in.ended {
		return false
	}
	in.nudged = false
	return in.file.SetReadDeadline(time.Time{}) == nil
}

// nudge makes a Read that waits go on if there is something to read, and lets it go first.
func (in *input) nudge() {
	if in.wake() {
		runtime.Gosched()
	}
}

// wake gives the Read a deadline that has passed, which is the one way to wake it.
func (in *input) wake() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.conn == nil || in.nudged || in.ended || !in.readable() {
		return false
	}
	in.nudged = in.file.SetReadDeadline(time.Unix(0, 1)) == nil
	return in.nudged
}

func (in *input) readable() bool {
	ready := 0
	_ = in.conn.Control(func(fd uintptr) { // fails when the file is closed
		ready, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	})
	return ready > 0
}

// interrupt makes a Read that waits, and each one after it, return, if that can be done.
func (in *input) interrupt() bool {
	in.mu.Lock()
	in.ended = true
	in.mu.Unlock()
	return interrupt(in.Reader)
}
