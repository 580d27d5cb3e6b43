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
	// groupPoll is how often a group without its leader is looked at, since nothing tells of its end.
	groupPoll = 10 * time.Millisecond
	// leftoverGrace is how long processes may take to end after TERM that the server left behind.
	leftoverGrace = 500 * time.Millisecond
)

// child is a server's process and its group.
type child struct {
	cmd    *exec.Cmd
	stdin  *os.File
	stdout *os.File
	exited chan struct{} // closed when it has been waited for

	release func() // of DialOptions.Guard
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
	cmd.WaitDelay = leftoverGrace // someone else may hold stderr open
	err = cmd.Start()
	closeFiles(in, out)
	if err != nil {
		closeFiles(stdin, stdout)
		return nil, fmt.Errorf("cannot start the server: %w", err)
	}
	c := &child{cmd: cmd, stdin: stdin, stdout: stdout, exited: make(chan struct{}), release: func() {}}
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
	// "First, closing the input stream to the child process (the server)"
	// "Waiting for the server to exit,
	if !c.await(closeGrace) {
		// or sending SIGTERM if the server does not exit within a reasonable time"
		c.signal(syscall.SIGTERM)
		if !c.await(termGrace) {
			// "Sending SIGKILL if the server does not exit within a reasonable time after SIGTERM"
			c.signal(syscall.SIGKILL)
			c.await(killGrace)
		}
	}
	c.endGroup()
	c.release()
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

func (c *child) signal(s syscall.Signal) { _ = syscall.Kill(-c.cmd.Process.Pid, s) } // fails when it has ended

// endGroup ends what the server left behind in its group.
func (c *child) endGroup() {
	c.signal(syscall.SIGTERM)
	for began := time.Now(); syscall.Kill(-c.cmd.Process.Pid, 0) == nil; time.Sleep(groupPoll) {
		if time.Since(began) > leftoverGrace {
			c.signal(syscall.SIGKILL)
			return
		}
	}
}

// Close ends the connection, and the server if Dial started it: it closes the server's stdin, waits, sends TERM to its
// process group, waits, sends KILL. What has been sent is written before. It returns how the server's process ended:
// nil if well, or if there is none. Requests without an answer fail with [ErrClosed].
func (c *Client) Close() error {
	c.closing.Do(c.close)
	if c.child == nil || c.child.cmd.ProcessState == nil {
		return nil
	}
	if s := c.child.cmd.ProcessState; !s.Success() {
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
