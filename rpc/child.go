package rpc

import (
	"fmt"
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
