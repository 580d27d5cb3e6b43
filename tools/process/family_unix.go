//go:build unix

package process

import (
	"errors"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"syscall"
)

// prepare makes a child the leader of a new group or, with a terminal, of a new session, whose controlling terminal is the child's stdout.
func prepare(cmd *exec.Cmd, s *Spec) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: !s.Pty, Setsid: s.Pty, Setctty: s.Pty, Ctty: 1}
	killWithThread(cmd.SysProcAttr)
	return nil
}

// begin starts a program.
func begin(cmd *exec.Cmd) error { return cmd.Start() }

// guardChild tells the guard about a child that was started. If the guard cannot be started now, it is started later.
func guardChild(pgid int) { _ = Guard(pgid) }

// Guard names a process group that must not outlive this program, until Release.
func Guard(pgid int) error { return guards.hold(strconv.Itoa(pgid)) }

// Release undoes Guard.
func Release(pgid int) { guards.release(strconv.Itoa(pgid)) }

// TieChildren does nothing: the guard knows what must not outlive this program.
func TieChildren() {}

// Shell returns the argv that runs a script.
func Shell(script string) []string { return []string{"/bin/sh", "-c", script} }

// variableKey returns the same key for all names of a variable.
func variableKey(name string) string { return name }

// ownGroup returns the process group of this program.
func ownGroup() int { return syscall.Getpgrp() }

// NewGroup returns attributes with which a program is started as the leader of a new process group.
func NewGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// Apart returns attributes with which a program outlives what a terminal, a host or this program does to its own group.
func Apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// restoreSignals keeps the child from inheriting an ignored SIGPIPE, with which `yes | head` would complain instead of ending. Notify
// protects runnel just as well, and is not inherited.
func restoreSignals() {
	if signal.Ignored(syscall.SIGPIPE) {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	}
}

func (f *family) gone() bool { return groupGone(f.leader) && len(f.strays()) == 0 }

// strays returns the processes of the family that have left its group.
func (f *family) strays() []int {
	f.seen = strays(f.leader, f.mark, f.seen)
	return slices.Collect(maps.Keys(f.seen))
}

// signal signals the group and those of the strays, which they cannot outrun, but no groups of other programs.
func (f *family) signal(s syscall.Signal) {
	strays := f.strays() // their parents may end now
	SignalGroup(f.leader, s)
	for _, pid := range strays {
		if pgid, err := syscall.Getpgid(pid); err == nil && pgid != syscall.Getpgrp() && !guards.holds(strconv.Itoa(pgid)) {
			SignalGroup(pgid, s)
		} else {
			_ = syscall.Kill(pid, s)
		}
	}
}

// groupGone reports whether a group without its leader has no running process left. While it has one, its id cannot be given to another
// process.
func groupGone(pgid int) bool {
	gone := errors.Is(syscall.Kill(-pgid, 0), syscall.ESRCH) || onlyZombies(pgid)
	// If runnel is the first process of a container, orphans become its children, and it must wait for them: here for those that have just
	// ended.
	for pid := pgid; pid > 0; {
		pid, _ = syscall.Wait4(-pgid, nil, syscall.WNOHANG, nil)
	}
	return gone
}

// SignalGroup sends a signal to a process group.
func SignalGroup(pgid int, s syscall.Signal) { _ = syscall.Kill(-pgid, s) }
