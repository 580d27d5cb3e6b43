//go:build unix

package process

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// begin starts a program.
func begin(cmd *exec.Cmd) error { return cmd.Start() }

// TieChildren does nothing: the guard knows what must not outlive this program.
func TieChildren() {}

// Shell returns the argv that runs a script.
func Shell(script string) []string { return []string{"/bin/sh", "-c", script} }

// variableKey returns the same key for all names of a variable.
func variableKey(name string) string { return name }

// ownGroup returns the process group of this program.
func ownGroup() int { return syscall.Getpgrp() }

// NewGroup returns attributes with which a program is started as the leader of a new process group, without a
// terminal.
func NewGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// Apart returns attributes with which a program outlives what a terminal, a host or this program does to its
// own group.
func Apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// restoreSignals keeps the child from inheriting an ignored SIGPIPE, with which `yes | head` would complain
// instead of ending. Notify protects runnel just as well, and is not inherited.
func restoreSignals() {
	if signal.Ignored(syscall.SIGPIPE) {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	}
}

// groupGone reports whether a group without its leader has no running process left. While it has one, its id
// cannot be given to another process.
func groupGone(pgid int) bool {
	// A process began after the last of the group had ended, and has its id.
	if !errors.Is(syscall.Kill(pgid, 0), syscall.ESRCH) {
		return true
	}
	gone := errors.Is(syscall.Kill(-pgid, 0), syscall.ESRCH) || onlyZombies(pgid)
	// If runnel is the first process of a container, orphans become its children, and it must wait for them:
	// here for those that have just ended.
	for pid := pgid; pid > 0; {
		pid, _ = syscall.Wait4(-pgid, nil, syscall.WNOHANG, nil)
	}
	return gone
}

// hidesInput reports whether a terminal does not echo what is typed, and whether it passes on each key. Its
// two ends share their settings.
func hidesInput(terminal *os.File) (hides, keys bool) {
	raw, err := terminal.SyscallConn()
	if err != nil {
		return false, false
	}
	_ = raw.Control(func(fd uintptr) { // fails once it is closed
		t, err := unix.IoctlGetTermios(int(fd), getTermios)
		if err == nil {
			hides, keys = t.Lflag&unix.ECHO == 0, t.Lflag&unix.ICANON == 0
		}
	})
	return hides, keys
}

// SignalGroup sends a signal to a process group, and continues what is stopped: otherwise it would not see
// the signal.
func SignalGroup(pgid int, s syscall.Signal) {
	_ = syscall.Kill(-pgid, s)
	_ = syscall.Kill(-pgid, syscall.SIGCONT)
}
