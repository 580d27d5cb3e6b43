package trace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"runnel/internal/system"
	"runnel/tools/process"
)

const (
	// stopGrace is how long a traced server may take to end after a signal to runnel trace: longer than
	// the 5 s that a runnel gives its children.
	stopGrace = 6 * time.Second
	// restGrace is how long output is still read when the server has ended and one of its children holds the
	// pipe open.
	restGrace = 500 * time.Millisecond
)

// Session is a server to trace, and the pipes of its host.
type Session struct {
	Command, Env   []string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// Run runs a server between its host's pipes until the server or ctx ends, and returns its exit code, as a
// shell shows it.
//
// Goroutines: one for each direction. The one from the host may be in a read that nothing can end; it stays
// until the process exits.
func Run(ctx context.Context, t *Record, s *Session) (code int, err error) {
	cmd := exec.CommandContext(ctx, s.Command[0], s.Command[1:]...)
	mark := process.NewMark()
	cmd.Env, cmd.Stderr = append(slices.Clip(s.Env), mark), s.Stderr
	cmd.SysProcAttr = process.NewGroup() // Ctrl-C is passed on, and must arrive only once
	cmd.WaitDelay = restGrace
	cmd.Cancel = func() error {
		t.event("runnel trace received a signal, and ends the session")
		cmd.WaitDelay = stopGrace // os/exec reads it after Cancel returns
		process.SignalGroup(cmd.Process.Pid, syscall.SIGTERM)
		return nil
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return 0, err
	}
	toHost := &Tap{To: s.Stdout, Note: t.Lines(fromServer)}
	toServer := &Tap{To: stdin, Note: t.Lines(FromHost)}
	cmd.Stdout = toHost
	process.SealInherited()
	process.TieChildren()
	release := process.GuardMark(mark)
	err = cmd.Start()
	if err != nil {
		release()
		return 0, fmt.Errorf("cannot start the server: %w", err)
	}
	pgid := cmd.Process.Pid
	if err := process.Guard(pgid); err != nil {
		t.event("the server is not guarded, and may outlive a runnel that is killed: " + err.Error())
	}
	release()
	defer process.Release(pgid)
	go s.passOn(t, toServer, func() { _ = stdin.Close() })
	waited := cmd.Wait()
	toHost.Note(nil)
	process.EndFamily(pgid, mark) // what it left
	state := cmd.ProcessState
	t.event(fmt.Sprintf("the server ended: %v", state))
	switch status, ok := state.Sys().(syscall.WaitStatus); {
	case ctx.Err() != nil && ok && status.Signaled(), state.Success() &&
		(waited == nil || errors.Is(waited, exec.ErrWaitDelay)):
		return 0, nil // even if the signal that was passed on killed the server
	case ok && status.Signaled():
		return 128 + int(status.Signal()), nil
	case !state.Success():
		return state.ExitCode(), nil
	}
	return 0, nil // the host is gone
}

// passOn copies what the host writes, until either side ends.
func (s *Session) passOn(t *Record, toServer *Tap, end func()) {
	_, _ = io.Copy(toServer, s.Stdin)
	toServer.Note(nil)
	t.event("the host closed its output")
	end()
}

// Relay is Run for a server that is reached through two pipes instead of started, until they end. When the
// host sends nothing more, finish waits for the answers that the server still owes.
func Relay(ctx context.Context, t *Record, server io.ReadWriteCloser, finish func(context.Context),
	s *Session) error {
	defer context.AfterFunc(ctx, func() {
		t.event("runnel trace received a signal, and ends the session")
		_ = server.Close()
	})()
	toHost, toServer := &Tap{To: s.Stdout, Note: t.Lines(fromServer)},
		&Tap{To: server, Note: t.Lines(FromHost)}
	go s.passOn(t, toServer, func() {
		rest, cancel := context.WithTimeout(ctx, stopGrace)
		defer cancel()
		finish(rest)
		_ = server.Close()
	})
	_, err := io.Copy(toHost, server)
	_ = server.Close() // which ends the session
	return err
}

// Tap notes bytes before it passes them on, so that a request is noted before its answer.
type Tap struct {
	To   io.Writer
	Note func([]byte)
}

func (t *Tap) Write(p []byte) (int, error) {
	t.Note(p)
	return t.To.Write(p)
}

// CreateFile opens a file for writing that only its user may read, and fails if that is not possible. It
// follows a link only if the user owns it. Devices stay as they are.
func CreateFile(file string) (*os.File, error) {
	const flags = os.O_WRONLY | os.O_CREATE // without O_TRUNC, which would empty another user's file
	f, err := os.OpenFile(file, flags|system.NoFollow, 0o600)
	if link, _ := os.Lstat(file); err != nil && link != nil && link.Mode()&fs.ModeSymlink != 0 {
		if _, foreign := system.IsForeign(file, link); foreign {
			return nil, fmt.Errorf("%s is a link that another user made: name the file itself", file)
		}
		f, err = os.OpenFile(file, flags, 0o600)
	}
	if err != nil {
		return nil, err
	}
	if err := makePrivate(f); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func makePrivate(f *os.File) error {
	info, err := f.Stat()
	switch {
	case err != nil:
		return err
	case info.Mode()&fs.ModeDevice != 0:
		return nil
	}
	if _, foreign := system.IsForeign(f.Name(), info); foreign {
		return fmt.Errorf("%s belongs to another user: name a file of your own", f.Name())
	}
	if err := f.Chmod(0o600); err != nil {
		return err
	}
	if info.Mode().IsRegular() {
		return f.Truncate(0)
	}
	return nil
}
