package process

import (
	"errors"
	"syscall"
	"time"
)

const (
	// KillWait is how long a child, and then its group, may take to be gone after KILL before the call ends without it
	// (a process may be in an uninterruptible wait, or a debugger may hold it).
	KillWait = 2 * time.Second
	// groupPoll is how often a group that has lost its leader is looked at, since nothing announces its end.
	groupPoll = 10 * time.Millisecond
)

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

func signalGroup(pgid int, s syscall.Signal) { _ = syscall.Kill(-pgid, s) }
