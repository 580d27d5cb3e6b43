package process

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"runnel/internal/system"
	"runnel/tools/sandbox"

	"github.com/creack/pty"
)

const (
	// maxDying bounds the commands that were stopped but are not gone yet. Their calls have ended, and a
	// grace can be long, so a client that calls and cancels again and again could otherwise have any number
	// of them.
	maxDying = 128
)

// dying counts the commands that were stopped but are not gone yet.
var dying atomic.Int64

// Spec describes a child for Start.
type Spec struct {
	Path   string
	Argv   []string
	Dir    string
	Env    []string
	Stdin  *string // nil = the null device
	Open   bool    // stdin is a pipe, or the terminal if there is one, that Child.Write writes to
	Stderr string  // merge, separate, discard
	Pty    bool
	Size   pty.Winsize // of the terminal
	Script bool        // Argv is that of Shell

	Sandbox *sandbox.Policy // what it may do; nil = all that this program may
}

// Child is a running process with its group. One goroutine waits for it, one reads each output pipe, and one
// writes stdin if there is any.
type Child struct {
	family family
	input  string
	writes bool     // stdin is for Write
	pty    bool     // stdout is a terminal
	stdin  *os.File // nil if there is none, or if it is the terminal
	stdout *os.File
	stderr *os.File // nil unless separate

	exited  chan struct{}    // closed when the child has been waited for
	state   *os.ProcessState // valid after exited
	status  syscall.WaitStatus
	unknown error // why state is nil after exited

	output output
}

// Start starts a child as the leader of a new group. The guard knows the group before Start returns.
func Start(s *Spec) (*Child, error) {
	p := &Child{exited: make(chan struct{}), writes: s.Open, pty: s.Pty}
	if s.Stdin != nil {
		p.input = *s.Stdin
	}
	if n := dying.Load(); n >= maxDying {
		return nil, fmt.Errorf("cannot start %s: %d commands that were stopped have not ended yet, the "+
			"limit is %d; try again later", s.Argv[0], n, maxDying)
	}
	restoreSignals()
	mark := guards.newMark()
	cmd := &exec.Cmd{
		Path: s.Path,
		Args: s.Argv,
		Dir:  s.Dir,
		Env:  append(slices.Clip(s.Env), mark),
	}
	if err := prepare(cmd, s); err != nil {
		return nil, fmt.Errorf("cannot start %s: %w", s.Argv[0], err)
	}
	theirs, err := p.open(cmd, s)
	var shim *sandbox.Shim
	if err == nil {
		shim, err = start(cmd, s.Sandbox)
	}
	closeAll(theirs...)
	if err != nil {
		p.closePipes()
		return nil, fmt.Errorf("cannot start %s: %w", s.Argv[0], err)
	}
	p.output.began = time.Now()
	p.family = family{leader: cmd.Process.Pid, mark: mark}
	guardChild(p.family.leader)
	go func() {
		p.state, p.unknown = forks.wait(cmd.Process)
		if p.state != nil {
			p.status = statusOf(p.state, shim)
		}
		close(p.exited)
	}()
	return p, nil
}

// start starts a program, in a sandbox if it has a policy.
func start(cmd *exec.Cmd, policy *sandbox.Policy) (shim *sandbox.Shim, err error) {
	path := cmd.Path
	if policy != nil {
		program, err := ThisProgram()
		if err == nil {
			shim, err = policy.Wrap(cmd, program)
		}
		if err != nil {
			return nil, err
		}
	}
	err = forks.start(cmd)
	if err != nil {
		err = fmt.Errorf("%s: %w", path, RootCause(err))
	}
	if shim == nil {
		return nil, err
	}
	err = shim.Started(err)
	if err != nil && cmd.Process != nil { // its shim has ended, or is of no use
		_ = cmd.Process.Kill()
		_, _ = forks.wait(cmd.Process)
	}
	return shim, err
}

// statusOf returns how a command has ended, from the state of its process.
func statusOf(state *os.ProcessState, shim *sandbox.Shim) syscall.WaitStatus {
	if shim != nil {
		return shim.Ended(state)
	}
	status, _ := state.Sys().(syscall.WaitStatus)
	return status
}

// StartConfined starts a program in a sandbox, and ended must be called when it has been waited for.
func StartConfined(cmd *exec.Cmd, policy *sandbox.Policy) (ended func(), err error) {
	shim, err := start(cmd, policy)
	if err != nil {
		return nil, err
	}
	return func() {
		forks.leave()
		shim.Close()
	}, nil
}

// open makes the pipes, returns the child's ends and keeps runnel's. All are close-on-exec.
func (p *Child) open(cmd *exec.Cmd, s *Spec) (theirs []*os.File, err error) {
	// pipe makes one pipe, unless an earlier one has failed.
	pipe := func(open func() (*os.File, *os.File, error)) (read, write *os.File) {
		if err == nil {
			read, write, err = open()
		}
		return read, write
	}
	if s.Stdin != nil || s.Open && !s.Pty {
		var in *os.File
		in, p.stdin = pipe(os.Pipe)
		cmd.Stdin, theirs = in, append(theirs, in)
	}
	var out *os.File
	if s.Pty {
		p.stdout, out = pipe(func() (runnel, child *os.File, err error) { return openTerminal(&s.Size) })
		if s.Open {
			cmd.Stdin = out
		}
	} else {
		p.stdout, out = pipe(system.Pipe)
	}
	cmd.Stdout, theirs = out, append(theirs, out)
	switch s.Stderr {
	case "merge":
		cmd.Stderr = out // one pipe keeps the order of the two
	case "separate":
		var second *os.File
		p.stderr, second = pipe(system.Pipe)
		cmd.Stderr, theirs = second, append(theirs, second)
	}
	return theirs, err
}

func openTerminal(size *pty.Winsize) (runnel, child *os.File, err error) {
	runnel, child, err = pty.Open()
	if err == nil {
		err = pty.Setsize(runnel, size)
	}
	return runnel, child, err
}

func (p *Child) closePipes() { closeAll(p.stdin, p.stdout, p.stderr) }

func closeAll(files ...*os.File) {
	for _, f := range files {
		_ = f.Close() // nil is fine
	}
}

// Limits say how long a process may run.
type Limits struct {
	Timeout, Idle time.Duration // 0 = no limit
	Grace         time.Duration
}

// Ending says how a process ended.
type Ending struct {
	State *os.ProcessState // nil: it was killed, but is not gone; or Unknown
	// Valid with State: how the command ended, which in a sandbox is a child of that process.
	Status  syscall.WaitStatus
	Unknown error // why the system does not tell how it ended; nil if it does
	Stop    StopReason
	Limit   time.Duration // the limit that was reached, for TimedOut and Idle
}

// StopReason is the reason for which runnel stopped a process.
type StopReason uint8

const (
	notStopped StopReason = iota
	Cancelled             // its context has ended
	TimedOut              // it has taken too long
	Idle                  // it has written nothing for too long
)

// Run passes the output to stdout and stderr, in a goroutine each, until the child has ended or must be
// stopped. When Run returns, nothing of the child is left. It may be called once.
func (p *Child) Run(ctx context.Context, stdout, stderr io.Writer, l Limits) Ending {
	var pumps sync.WaitGroup
	pumps.Go(func() { p.output.pump(p.stdout, stdout) })
	if p.stderr != nil {
		pumps.Go(func() { p.output.pump(p.stderr, stderr) })
	}
	if p.stdin != nil && !p.writes {
		pumps.Go(p.feed)
	}

	e := p.watch(ctx, l)
	if e.Stop == notStopped {
		p.family.endRest()
	} else {
		dying.Add(1)
		p.family.end(p.stop(l.Grace))
		go func() { <-p.exited; dying.Add(-1) }() // it may end later
	}
	Release(p.family.leader)

	closeAll(p.stdin) // feed may still be waiting for somebody to read
	deadline := time.Now().Add(collectDelay)
	_ = p.stdout.SetReadDeadline(deadline)
	_ = p.stderr.SetReadDeadline(deadline) // nil is fine
	pumps.Wait()
	p.closePipes()
	if p.endsWithin(0) {
		e.State, e.Unknown = p.state, p.unknown
		e.Status = p.status
	}
	return e
}

// watch returns when the process has ended or must be stopped.
func (p *Child) watch(ctx context.Context, l Limits) Ending {
	var timeout, idle <-chan time.Time
	if l.Timeout > 0 {
		timeout = time.After(l.Timeout)
	}
	if l.Idle > 0 {
		idle = time.After(l.Idle)
	}
	patience := patience{limit: l.Idle}
	for {
		select {
		case <-p.exited:
			return Ending{}
		case <-ctx.Done():
			return Ending{Stop: Cancelled}
		case <-timeout:
			return Ending{Stop: TimedOut, Limit: l.Timeout}
		case <-idle:
			unread := system.Readable(p.stdout) || system.Readable(p.stderr)
			took := p.output.silence()
			wait := patience.look(time.Now(), took, unread)
			if wait == 0 {
				return Ending{Stop: Idle, Limit: l.Idle}
			}
			idle = time.After(wait)
		}
	}
}

// stop sends TERM to the family, and KILL if the child is still there after the grace. It returns the rest of
// the grace, for the rest of the family.
func (p *Child) stop(grace time.Duration) time.Duration {
	deadline := time.Now().Add(grace)
	p.family.signal(syscall.SIGTERM)
	if !p.endsWithin(grace) {
		p.family.signal(syscall.SIGKILL)
		p.endsWithin(KillWait)
	}
	return max(0, time.Until(deadline))
}

// endsWithin waits for the child's end for at most d, and reports whether the child has ended.
func (p *Child) endsWithin(d time.Duration) bool {
	select {
	case <-p.exited: // even if d is 0
		return true
	default:
	}
	select {
	case <-p.exited:
		return true
	case <-time.After(d):
		return false
	}
}

// feed writes stdin. The command need not read all of it.
func (p *Child) feed() {
	_, _ = io.WriteString(p.stdin, p.input)
	_ = p.stdin.Close()
}
