//go:build unix

package process

import (
	"maps"
	"os/exec"
	"slices"
	"strconv"
	"syscall"
)

// prepare makes a child the leader of a new session. Its controlling terminal is the child's stdout if that
// is a terminal; otherwise it has none: git asks for a password on /dev/tty, and in a host's terminal the
// system would stop it there, for ever.
func prepare(cmd *exec.Cmd, s *Spec) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: s.Pty, Ctty: 1}
	killWithThread(cmd.SysProcAttr)
	return nil
}

// guardChild tells the guard about a child that was started. If the guard cannot be started now, it is
// started later.
func guardChild(pgid int) { _ = Guard(pgid) }

// Guard names a process group that must not outlive this program, until Release.
func Guard(pgid int) error { return guards.hold(strconv.Itoa(pgid)) }

// GuardMark has the guard end, on Linux, whatever has a mark if this program is killed, until release is
// called: a program that is being started has no group yet that Guard could name.
func GuardMark(mark string) (release func()) {
	_ = guards.hold(mark) // Guard, which follows, says what is wrong
	return func() { guards.release(mark) }
}

// Release undoes Guard.
func Release(pgid int) { guards.release(strconv.Itoa(pgid)) }

func (f *family) gone() bool {
	f.empty = f.empty || groupGone(f.leader)
	return f.empty && len(f.strays()) == 0
}

// strays returns the processes of the family that have left its group.
func (f *family) strays() []int {
	f.seen = strays(f.leader, f.mark, f.seen)
	return slices.Collect(maps.Keys(f.seen))
}

// signal signals the group and those of the strays, which they cannot outrun, but no groups of other
// programs.
func (f *family) signal(s syscall.Signal) {
	strays := f.strays() // their parents may end now
	if !f.empty {
		SignalGroup(f.leader, s)
	}
	for _, pid := range strays {
		if pgid, err := syscall.Getpgid(pid); err == nil && pgid != syscall.Getpgrp() &&
			!guards.holds(strconv.Itoa(pgid)) {
			SignalGroup(pgid, s)
		} else {
			_ = syscall.Kill(pid, s)
			_ = syscall.Kill(pid, syscall.SIGCONT)
		}
	}
}
