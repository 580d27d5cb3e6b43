package rpc

import (
	"errors"
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
	// stdoutGrace is the same for stdout.
	stdoutGrace = 500 * time.Millisecond
	// restGrace is how long a Read of what the pipe holds by then may take.
	restGrace = 50 * time.Millisecond
)

// child is a server's process and its group.
type child struct {
	cmd    *exec.Cmd
	stdin  *os.File
	stdout *childOutput
	exited chan struct{} // closed when it has been waited for

	release  func() // from DialOptions.Guard
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
	c := &child{cmd: cmd, stdin: stdin, stdout: &childOutput{File: stdout}, exited: make(chan struct{}), release: func() {}, endGroup: killGroup}
	go func() {
		defer close(c.exited)
		_ = cmd.Wait() // how it ended is in ProcessState
		_ = stdout.SetReadDeadline(time.Now().Add(stdoutGrace))
	}()
	return c, nil
}

// childOutput is what a server writes. It ends with the pipe or, where somebody else holds that open, with the server's process, whose
// end sets a deadline: then what the pipe holds is read, and nothing more. A helper that outlives its server answers no calls.
type childOutput struct {
	*os.File
	rest int // bytes that have been read after the deadline
}

// maxRest is as much as a pipe can hold. A helper that goes on writing must end, too.
const maxRest = 1 << 20

var errLeftBehind = errors.New("the server has ended, though something that it started holds its output open")

func (o *childOutput) Read(p []byte) (int, error) {
	n, err := o.File.Read(p)
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return n, err
	}
	_ = o.SetReadDeadline(time.Now().Add(restGrace)) // with one that has passed, nothing is read at all
	n, err = o.File.Read(p)
	if o.rest += n; o.rest > maxRest || errors.Is(err, os.ErrDeadlineExceeded) {
		return 0, errLeftBehind
	}
	return n, err
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
