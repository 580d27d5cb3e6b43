package rpc

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

const (
	// closeGrace is how long a server may take to end by itself when its stdin has been closed: it may have children to end.
	closeGrace = 5 * time.Second
	// termGrace is how long it may take after TERM, longer than the 5 s that a runnel gives to its own children.
	termGrace = 6 * time.Second
	// killGrace is how long it may take to be gone after KILL (it may be in an uninterruptible wait).
	killGrace = 2 * time.Second
	// stderrGrace is how long stderr may stay open when the server has ended: someone else may hold it.
	stderrGrace = 500 * time.Millisecond
)

// child is a server's process and its group.
type child struct {
	cmd    *exec.Cmd
	stdin  *os.File
	stdout *os.File
	exited chan struct{} // closed when it has been waited for

	release  func() // of DialOptions.Guard
	endGroup func(pgid int)
}

// startChild starts the server in a process group of its own, so that a Ctrl-C of the terminal is not also its, and so
// that its children can be ended with it.
func startChild(o *DialOptions) (*child, error) {
	in, stdin, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	stdout, out, err := os.Pipe()
	if err != nil {
		closeFiles(in, stdin)
		return nil, err
	}
	cmd := exec.Command(o.Command[0], o.Command[1:]...)
	cmd.Env, cmd.Dir = o.Env, o.Dir
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, o.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = stderrGrace
	err = cmd.Start()
	closeFiles(in, out)
	if err != nil {
		closeFiles(stdin, stdout)
		return nil, fmt.Errorf("cannot start the server: %w", err)
	}
	c := &child{cmd: cmd, stdin: stdin, stdout: stdout, exited: make(chan struct{}), release: func() {}, endGroup: killGroup}
	go func() {
		defer close(c.exited)
		_ = cmd.Wait() // how it ended is in ProcessState
	}()
	return c, nil
}

func closeFiles(files ...*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// end ends the server, whose stdin has been closed, as basic/lifecycle, "Shutdown", says for stdio.
func (c *child) end() {
	defer c.release()
	// "First, closing the input stream to the child process (the server)"
	// "Waiting for the server to exit,
	if !c.await(closeGrace) {
		// or sending SIGTERM if the server does not exit within a reasonable time"
		_ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGTERM) // fails when it has ended
		if !c.await(termGrace) {
			// "Sending SIGKILL if the server does not exit within a reasonable time after SIGTERM"
			killGroup(c.cmd.Process.Pid)
			if !c.await(killGrace) {
				return
			}
		}
	}
	c.endGroup(c.cmd.Process.Pid)
}

func (c *child) await(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-c.exited:
		return true
	case <-t.C:
		return false
	}
}

func killGroup(pgid int) { _ = syscall.Kill(-pgid, syscall.SIGKILL) }

// Close ends the connection, and the server if Dial started it: it closes the server's stdin, waits, sends TERM to its
// process group, waits, sends KILL. What has been sent is written before. It returns how the server's process ended:
// nil if well, or if there is none. Requests without an answer fail with [ErrClosed].
func (c *Client) Close() error {
	c.closing.Do(c.close)
	if c.child == nil {
		return nil
	}
	select {
	case <-c.child.exited:
	default:
		return fmt.Errorf("the server has not ended %v after KILL", killGrace)
	}
	if s := c.child.cmd.ProcessState; s != nil && !s.Success() {
		return fmt.Errorf("the server ended with %v", s)
	}
	return nil
}

func (c *Client) close() {
	c.w.close()
	t := time.NewTimer(flushGrace)
	defer t.Stop()
	select {
	case <-c.w.done:
	case <-t.C:
		c.w.fail(errUnread)
	}
	_ = c.opt.In.Close() // also ends a Write that waits
	<-c.w.done
	if c.child != nil {
		c.child.end()
	}
	// The server closes its output when it ends; one that does not is not waited for.
	t.Reset(closeGrace)
	select {
	case <-c.silent:
	case <-t.C:
	}
	if out, ok := c.opt.Out.(io.Closer); ok {
		_ = out.Close()
		<-c.silent
		c.asking.Wait()
	}
}

// Abandon gives up a server that does not answer: requests fail with [ErrClosed] and the reason from now on, and what still
// comes is dropped. Close is to be called all the same.
func (c *Client) Abandon(reason error) { c.ended(reason) }
