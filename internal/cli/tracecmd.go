package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
)

const (
	// stopGrace is how long a traced server may take to end when runnel trace is told to end: longer than
	// the 5 s that a runnel gives to its own children.
	stopGrace = 6 * time.Second
	// restGrace is how long output is read on when the server has ended and a child of its own holds the pipe open.
	restGrace = 500 * time.Millisecond
)

// traceCommand is "runnel trace".
func (i *invocation) traceCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "trace -o FILE [flags] -- SERVER [ARGUMENT...]",
		Short: "Stand between a host and a server, and write down what they say",
		Long: `Starts any MCP server on stdin and stdout and passes bytes through unchanged, both ways. What passes by is written to FILE, one
message a line, with the time, the direction, what it answers and after how long, and what is wrong with its sequence numbers.
Put it in front of the command in a host's config. The exit code is the server's.`,
		Example: `  runnel trace -o session.trace -- npx -y @modelcontextprotocol/server-everything

  # in a host's config: instead of "command": "my-server", "args": ["--flag"]
  "command": "/usr/local/bin/runnel", "args": ["trace", "-o", "/tmp/session.trace", "--", "my-server", "--flag"]`,
		RunE: func(cmd *cobra.Command, args []string) error {
			own, server, err := splitServer(cmd, args)
			if err == nil {
				err = noArguments(cmd, own)
			}
			switch {
			case err != nil:
				return err
			case len(server) == 0:
				return &usageError{errors.New("runnel trace: which server? its command comes behind --"), hint(cmd)}
			case file == "":
				return &usageError{errors.New("runnel trace: which file? name it with -o"), hint(cmd)}
			}
			return i.trace(cmd.Context(), file, server)
		},
	}
	cmd.Flags().StringVarP(&file, "output", "o", "", "the `FILE` to write; what was in it is lost")
	return cmd
}

// trace runs a server between this process's stdin and stdout.
//
// Goroutines: one for each direction. The one from the host may wait in a read that nothing can end; it is left behind for
// the exit of the process.
func (i *invocation) trace(ctx context.Context, file string, server []string) error {
	out, err := createPrivate(file) // what is said may be secret
	if err != nil {
		return &usageError{fmt.Errorf("-o: %w", err), ""}
	}
	defer out.Close()
	t := newRecord(out, server)

	cmd := exec.Command(server[0], server[1:]...)
	cmd.Env, cmd.Stderr = i.env, i.stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a Ctrl-C is passed on, and comes once
	cmd.WaitDelay = restGrace
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	toHost := &tap{to: i.stdout, note: t.lines(fromServer)}
	toServer := &tap{to: stdin, note: t.lines(fromHost)}
	cmd.Stdout = toHost
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("cannot start the server: %w", err)
	}
	go func() {
		_, _ = io.Copy(toServer, i.stdin) // ends with either side
		toServer.note(nil)
		t.event("the host closed its output")
		_ = stdin.Close()
	}()
	exited := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-exited:
			return
		case <-ctx.Done():
		}
		t.event("runnel trace was told to end")
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) // fails when it has ended
		select {
		case <-exited:
		case <-time.After(stopGrace):
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		}
	})
	waited := cmd.Wait()
	close(exited)
	wg.Wait()
	toHost.note(nil)
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what it left behind
	state := cmd.ProcessState
	t.event(fmt.Sprintf("the server ended: %v", state))
	if err := t.failure(); err != nil {
		i.say(zerolog.WarnLevel, fmt.Sprintf("runnel: %s is not complete: %v", file, err))
	}
	switch status, ok := state.Sys().(syscall.WaitStatus); {
	case ctx.Err() != nil && ok && status.Signaled(), state.Success() && (waited == nil || errors.Is(waited, exec.ErrWaitDelay)):
		return nil // also of a server that ended by the signal that was passed on
	case ok && status.Signaled():
		return exitError(128 + int(status.Signal()))
	case !state.Success():
		return exitError(state.ExitCode())
	}
	return nil // the host has gone
}

// tap notes bytes and passes them on, in this order: what a message is answered with is noted behind it.
type tap struct {
	to   io.Writer
	note func([]byte)
}

func (t *tap) Write(p []byte) (int, error) {
	t.note(p)
	return t.to.Write(p)
}
