package rpc

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"runnel/internal/system"
)

const (
	// closeGrace is how long a server may take to exit after its stdin was closed: it may have children to
	// end.
	closeGrace = 5 * time.Second
	// termGrace is how long it may take after TERM: longer than the 5 s that a runnel gives its own children.
	termGrace = 6 * time.Second
	// killGrace is how long it may take to disappear after KILL: it may be in an uninterruptible wait.
	killGrace = 2 * time.Second
	// stderrGrace is how long stderr may stay open after the server has exited: another process may hold it.
	stderrGrace = 500 * time.Millisecond
	// stdoutGrace is the same for stdout.
	stdoutGrace = 500 * time.Millisecond
)

// child is a server's process and its group.
type child struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *childOutput
	exited chan struct{} // closed when the process has been waited for

	release  func() // from DialOptions.Guard
	endGroup func(pgid int)
}

// startChild starts the server in its own process group and session: a Ctrl-C in the terminal does not reach
// it, it cannot read from the terminal, and its children can be ended with it.
func startChild(o *DialOptions) (*child, error) {
	stdout, out, err := system.Pipe() // not cmd.StdoutPipe: Wait would close it, with what it still holds
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(o.Command[0], o.Command[1:]...)
	cmd.Env, cmd.Dir = o.Env, o.Dir
	cmd.Stdout, cmd.Stderr = out, o.Stderr
	cmd.SysProcAttr = newGroup()
	cmd.WaitDelay = stderrGrace
	stdin, err := cmd.StdinPipe()
	ended := func() {}
	if err == nil && o.Start != nil {
		ended, err = o.Start(cmd)
	} else if err == nil {
		err = cmd.Start()
	}
	out.Close()
	if err != nil {
		if cmd.Process != nil { // Start has waited for it, and its pipes are left
			_ = cmd.Wait()
		}
		stdout.Close()
		return nil, fmt.Errorf("cannot start the server: %w", err)
	}
	c := &child{cmd: cmd, stdin: stdin, stdout: &childOutput{File: stdout}, exited: make(chan struct{}),
		release: func() {}, endGroup: killRest}
	go func() {
		defer close(c.exited)
		_ = cmd.Wait() // ProcessState says how it ended
		ended()
		_ = stdout.SetReadDeadline(time.Now().Add(stdoutGrace))
	}()
	return c, nil
}

// childOutput is what a server writes. It ends with the pipe or, if another process still holds that open,
// with the server's process. The process's exit sets a deadline, after which only what is already in the pipe
// is read: a helper that outlives its server answers no calls.
type childOutput struct {
	*os.File
	wide bool // the pipe holds readSize bytes
	over bool // the deadline has passed
	rest int  // bytes read since then
}

// fullPipe is what a Linux pipe holds from the start. One that was full is widened: a result of 7 MiB passes
// with half of the switches between the two processes.
const fullPipe = 64 << 10

// maxRest is as much as a pipe can hold. Reading ends there even if a helper keeps writing.
const maxRest = 1 << 20

func (o *childOutput) Read(p []byte) (n int, err error) {
	if !o.over {
		n, err = o.File.Read(p)
		if n >= fullPipe && !o.wide {
			system.Widen(o.File, readSize)
			o.wide = true
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		o.over = true
		_ = o.SetReadDeadline(time.Time{}) // a deadline in the past would make every read fail
	}
	if o.rest > maxRest || !system.Readable(o.File) {
		return 0, errHeldOpen
	}
	n, err = o.File.Read(p)
	o.rest += n
	return n, err
}

// end stops the server, whose stdin has been closed, as basic/lifecycle, "Shutdown", describes for stdio.
func (c *child) end() {
	defer c.release()
	pgid := c.cmd.Process.Pid
	// "First, closing the input stream to the child process (the server)"
	wake(c.cmd.Process)
	// "Waiting for the server to exit, or sending SIGTERM if the server does not exit within a reasonable
	// time"
	term := time.AfterFunc(closeGrace, func() { terminate(c.cmd.Process); wake(c.cmd.Process) })
	// "Sending SIGKILL if the server does not exit within a reasonable time after SIGTERM"
	kill := time.AfterFunc(closeGrace+termGrace, func() { kill(c.cmd.Process) })
	select {
	case <-c.exited:
		term.Stop()
		kill.Stop()
		c.endGroup(pgid)
	case <-time.After(closeGrace + termGrace + killGrace):
	}
}
