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

// prepare makes a child the leader of a group of its own. With a terminal it is a session, whose controlling terminal is the child's
// stdout.
func prepare(cmd *exec.Cmd, s *Spec) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: !s.Pty, Setsid: s.Pty, Setctty: s.Pty, Ctty: 1}
	killWithThread(cmd.SysProcAttr)
	return nil
}

// begin starts a program.
func begin(cmd *exec.Cmd) error { return cmd.Start() }

// guardChild tells the guard of a child that has been started. A guard that cannot be started now is started later.
func guardChild(pgid int) { _ = Guard(pgid) }

// Guard names a process group that must not outlive this program, until Release.
func Guard(pgid int) error { return guards.hold(strconv.Itoa(pgid)) }

// Release takes back Guard.
func Release(pgid int) { guards.release(strconv.Itoa(pgid)) }

// TieChildren does nothing: what must not outlive this program is named to the guard.
func TieChildren() {}

// Shell is the argv that runs a script.
func Shell(script string) []string { return []string{"/bin/sh", "-c", script} }

// variableKey is the same for two names of one variable.
func variableKey(name string) string { return name }

// ownGroup is the group of this program.
func ownGroup() int { return syscall.Getpgrp() }

// NewGroup makes what is started with it the leader of a process group of its own.
func NewGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// Apart makes what is started with it live on, whatever a terminal, a host or this program does to its own group.
func Apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// restoreSignals sees to it that an ignored SIGPIPE is not ignored in the child too: `yes | head` would complain instead of ending.
// Notify keeps runnel safe from it just as well, and is not inherited.
func restoreSignals() {
	if signal.Ignored(syscall.SIGPIPE) {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	}
}

func (f *family) gone() bool { return groupGone(f.leader) && len(f.strays()) == 0 }

// strays are the processes of the family that have left its group.
func (f *family) strays() []int {
	f.seen = strays(f.leader, f.mark, f.seen)
	return slices.Collect(maps.Keys(f.seen))
}

// signal signals the group of each, which cannot outrun that, but for the groups of others.
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

// groupGone reports whether a group without its leader has no running process any more. Its id cannot be
// given to another process as long as it has one.
func groupGone(pgid int) bool {
	gone := errors.Is(syscall.Kill(-pgid, 0), syscall.ESRCH) || onlyZombies(pgid)
	// Where runnel is the first process of a container, orphans become its children: it must wait for them, last for those
	// that have ended just now.
	for pid := pgid; pid > 0; {
		pid, _ = syscall.Wait4(-pgid, nil, syscall.WNOHANG, nil)
	}
	return gone
}

// SignalGroup sends a signal to a process group.
func SignalGroup(pgid int, s syscall.Signal) { _ = syscall.Kill(-pgid, s) }
