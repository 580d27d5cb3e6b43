package rpc

import (
	"io"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// input is what a session reads. Whoever has written much wakes its reader (see nudger): the runtime looks for what can be read when a
// processor has nothing to do, which is seldom while a task streams flat out, and the slow pings waited longer to be noticed than for anything
// else. Without it the slowest hundredth of the pings beside a flood took half as long again (390 µs, then 490; 510, then 870).
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

// nudger is an output. After each long write it wakes the reader of the input if there is something to read.
type nudger struct {
	io.Writer
	in *input
}

func (n nudger) Write(p []byte) (int, error) {
	written, err := n.Writer.Write(p)
	if len(p) >= laneRoom {
		n.in.nudge()
	}
	return written, err
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

// interrupt makes a Read or Write that waits return, if that can be done.
func interrupt(pipe any) bool {
	var err error
	switch p := pipe.(type) {
	case interface{ SetDeadline(time.Time) error }:
		// An os.File that the runtime does not poll (a terminal, an inherited pipe) has no deadlines,
		// and closing it would not end the Read or Write either.
		err = p.SetDeadline(time.Now())
	case io.Closer:
		err = p.Close()
	default:
		return false
	}
	return err == nil
}
