package tools

import (
	"errors"
	"syscall"
	"time"
)

const (
	// leftoverGrace is how long processes that a command or a server leaves behind may take to end after TERM.
	// Nobody asked for them to go on, and the call waits for them; a call that is stopped gives them its whole grace.
	leftoverGrace = 500 * time.Millisecond
	// groupPoll is how often a group that has lost its leader is looked at, since nothing tells of its end.
	groupPoll = 10 * time.Millisecond
)

// EndGroup ends what is left of a process group whose leader has ended by itself and has been waited for: by TERM, and by KILL
// half a second later. It returns when nothing is left, 2 s after KILL at the latest.
func EndGroup(pgid int) {
	if !groupGone(pgid) {
		signalGroup(pgid, syscall.SIGTERM)
	}
	endGroup(pgid, leftoverGrace)
}

// endGroup waits for what is left of a group whose leader has been waited for, perhaps in vain, and kills it after the grace.
func endGroup(pgid int, grace time.Duration) {
	if !waitGroup(pgid, grace) {
		signalGroup(pgid, syscall.SIGKILL)
		waitGroup(pgid, killWait)
	}
}

func waitGroup(pgid int, limit time.Duration) bool {
	if groupGone(pgid) {
		return true
	}
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	poll := time.NewTicker(groupPoll)
	defer poll.Stop()
	for !groupGone(pgid) {
		select {
		case <-poll.C:
		case <-deadline.C:
			return groupGone(pgid)
		}
	}
	return true
}

// groupGone reports whether a group without its leader has no running process any more. Its id cannot be
// given to another process as long as it has one.
func groupGone(pgid int) bool {
	gone := errors.Is(syscall.Kill(-pgid, 0), syscall.ESRCH) || onlyZombies(pgid)
	// Where runnel is the first process of a container, orphans become its children: it must wait for them, last for those
	// that have ended just now.
	for {
		pid, err := syscall.Wait4(-pgid, nil, syscall.WNOHANG, nil)
		if pid <= 0 && !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	return gone
}

func signalGroup(pgid int, s syscall.Signal) { _ = syscall.Kill(-pgid, s) }
