package tools

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

const (
	// killWait is how long a child, and then its group, may take to be gone after KILL before the call ends without it
	// (a process may be in an uninterruptible wait, or a debugger may hold it).
	killWait = 2 * time.Second
	// collectDelay is how long output is read on once the command's group is gone and someone else, who left
	// the group, holds the pipe still. What is in the pipe by then is read too.
	collectDelay = 100 * time.Millisecond
	// collectMax bounds what is read then, if that someone goes on writing: more than the
	// command itself can have left in a pipe (pipe-max-size of Linux).
	collectMax = 1 << 20

	// maxDying bounds the commands that were stopped and are not gone yet. Their calls count no more, and a grace may be
	// long: without it a client that calls and cancels, again and again, could have any number of them.
	maxDying = 128

	terminalRows, terminalColumns = 24, 80
)

// dying is how many commands were stopped and are not gone yet.
var dying atomic.Int64

// processSpec is one command, ready to be started.
type processSpec struct {
	path   string
	argv   []string
	dir    string
	env    []string
	stdin  *string // nil = the null device
	stderr string  // merge, separate, discard
	pty    bool
}

// process is a running child and its group. Its goroutines: one waits for the child, one reads
// each output pipe, one writes stdin if there is any.
type process struct {
	pid    int // also the id of its process group
	family family
	input  string
	stdin  *os.File
	stdout *os.File
	stderr *os.File // nil unless separate

	exited chan struct{}    // closed when the child has been waited for
	state  *os.ProcessState // valid after exited
}

// startProcess starts a child in a group of its own. The guard knows the group before startProcess returns.
func startProcess(s *processSpec) (*process, error) {
	p := &process{exited: make(chan struct{})}
	if s.stdin != nil {
		p.input = *s.stdin
	}
	if n := dying.Load(); n >= maxDying {
		return nil, fmt.Errorf("cannot start %s: %d commands that were stopped have not ended yet, the limit is %d; try again later", s.argv[0], n, maxDying)
	}
	files, err := p.open(s)
	defer closeAll(files)
	if err != nil {
		p.closePipes()
		return nil, fmt.Errorf("cannot start %s: %w", s.argv[0], err)
	}

	// An ignored SIGPIPE would be ignored in the child too: `yes | head` would complain instead of ending.
	// Notify keeps runnel safe from it just as well, and is not inherited.
	if signal.Ignored(syscall.SIGPIPE) {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	}

	sealInherited()
	mark := guards.newMark()
	child, err := forks.start(s.path, s.argv, &os.ProcAttr{
		Dir:   s.dir,
		Env:   append(slices.Clip(s.env), mark),
		Files: files,
		Sys:   sysProcAttr(s.pty),
	})
	if err != nil {
		p.closePipes()
		return nil, fmt.Errorf("cannot start %s: %s: %w", s.argv[0], s.path, rootCause(err))
	}
	p.pid = child.Pid
	p.family = family{leader: p.pid, mark: mark}
	_ = guards.add(p.pid) // a guard that cannot be started now is started later
	go func() {
		p.state, _ = forks.wait(child)
		close(p.exited)
	}()
	return p, nil
}

// open makes the pipes: the child's ends are returned, runnel's are kept. All are close-on-exec.
func (p *process) open(s *processSpec) (files []*os.File, err error) {
	var in, out *os.File
	if s.stdin != nil {
		in, p.stdin, err = os.Pipe()
	} else {
		in, err = os.Open(os.DevNull)
	}
	if err != nil {
		return nil, err
	}
	files = append(files, in)

	if s.pty {
		p.stdout, out, err = openTerminal()
	} else {
		p.stdout, out, err = os.Pipe()
	}
	if err != nil {
		return files, err
	}
	files = append(files, out)

	second := out // merged: one pipe keeps the order of the two
	switch s.stderr {
	case "separate":
		p.stderr, second, err = os.Pipe()
	case "discard":
		second, err = os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	}
	if err != nil {
		return files, err
	}
	return append(files, second), nil
}

func openTerminal() (runnel, child *os.File, err error) {
	runnel, child, err = pty.Open()
	if err == nil {
		err = pty.Setsize(runnel, &pty.Winsize{Rows: terminalRows, Cols: terminalColumns})
	}
	return runnel, child, err
}

func (p *process) closePipes() { closeAll([]*os.File{p.stdin, p.stdout, p.stderr}) }

func closeAll(files []*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close()
		}
	}
}

// limits are how long a process may go on.
type limits struct {
	timeout, idle time.Duration // 0 = no limit
	grace         time.Duration
}

// ending is how a process came to its end.
type ending struct {
	state *os.ProcessState // nil: it was killed, and is not gone
	stop  stopReason
	limit time.Duration // the one that was reached, if stop says so
}

// stopReason is why runnel stopped a process.
type stopReason uint8

const (
	notStopped stopReason = iota
	stopCancelled
	stopTimeout
	stopIdle
)

// run reads the output into r until the process has ended, or stops it, and leaves nothing of it behind.
func (p *process) run(ctx context.Context, r *record, l limits) ending {
	var pumps sync.WaitGroup
	pumps.Go(func() { r.stdout.pump(p.stdout) })
	if p.stderr != nil {
		pumps.Go(func() { r.stderr.pump(p.stderr) })
	}
	if p.stdin != nil {
		pumps.Go(p.feed)
	}

	e := p.watch(ctx, r, l)
	if e.stop == notStopped {
		p.family.endRest()
	} else {
		dying.Add(1)
		defer p.gone(func() { dying.Add(-1) })
		p.family.end(p.stop(l.grace))
	}
	guards.release(p.pid)

	closeAll([]*os.File{p.stdin}) // feed may still be waiting for somebody to read
	deadline := time.Now().Add(collectDelay)
	_ = p.stdout.SetReadDeadline(deadline)
	if p.stderr != nil {
		_ = p.stderr.SetReadDeadline(deadline)
	}
	pumps.Wait()
	closeAll([]*os.File{p.stdout, p.stderr})
	if p.endsWithin(0) {
		e.state = p.state
	}
	return e
}

// watch returns when the process has ended or must be stopped.
func (p *process) watch(ctx context.Context, r *record, l limits) ending {
	var timeout, idle <-chan time.Time
	if l.timeout > 0 {
		t := time.NewTimer(l.timeout)
		defer t.Stop()
		timeout = t.C
	}
	var idleTimer *time.Timer
	looked := false // at a silence that was long enough
	if l.idle > 0 {
		idleTimer = time.NewTimer(l.idle)
		defer idleTimer.Stop()
		idle = idleTimer.C
	}
	for {
		select {
		case <-p.exited:
			return ending{}
		case <-ctx.Done():
			return ending{stop: stopCancelled}
		case <-timeout:
			return ending{stop: stopTimeout, limit: l.timeout}
		case <-idle:
			switch left := l.idle - r.silence(); {
			case left > 0:
				looked = false
				idleTimer.Reset(left)
			case !looked || p.unread():
				// Runnel itself may have been stopped, not the command: what that has printed meanwhile is read before it is judged.
				looked = true
				idleTimer.Reset(idleLook)
			default:
				return ending{stop: stopIdle, limit: l.idle}
			}
		}
	}
}

// idleLook is how long a command that seems to be silent is looked at.
const idleLook = 100 * time.Millisecond

// unread reports whether the command has printed what its pumps have not read yet.
func (p *process) unread() (found bool) {
	for _, f := range []*os.File{p.stdout, p.stderr} {
		if f == nil {
			continue
		}
		raw, err := f.SyscallConn()
		if err != nil {
			continue
		}
		_ = raw.Control(func(fd uintptr) {
			ready := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
			_, _ = unix.Poll(ready, 0)
			found = found || ready[0].Revents&unix.POLLIN != 0
		})
	}
	return found
}

// stop sends TERM to the family, and KILL when the child is still there after the grace. It returns what is
// left of the grace for the rest of the family.
func (p *process) stop(grace time.Duration) time.Duration {
	deadline := time.Now().Add(grace)
	p.family.signal(syscall.SIGTERM)
	if !p.endsWithin(grace) {
		p.family.signal(syscall.SIGKILL)
		p.endsWithin(killWait)
	}
	return max(0, time.Until(deadline))
}

// endsWithin waits for the child's end, so long at the most, and reports whether it has come.
func (p *process) endsWithin(d time.Duration) bool {
	select {
	case <-p.exited: // also if there is no time
		return true
	default:
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-p.exited:
		return true
	case <-t.C:
		return false
	}
}

// gone calls f when the child has ended, be it later.
func (p *process) gone(f func()) {
	if p.endsWithin(0) {
		f()
		return
	}
	go func() { <-p.exited; f() }()
}

// feed writes stdin. A command that does not read it, or not all of it, is fine.
func (p *process) feed() {
	_, _ = io.WriteString(p.stdin, p.input)
	_ = p.stdin.Close()
}
