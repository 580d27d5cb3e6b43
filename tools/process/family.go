package process

import (
	"syscall"
	"time"
)

const (
	// KillWait is how long a child, and then its group, may take to be gone after KILL before the call ends
	// anyway (a process may be in an uninterruptible wait, or a debugger may hold it).
	KillWait = 2 * time.Second
	// groupPoll is how often a group without a leader is checked, since nothing announces its end.
	groupPoll = 10 * time.Millisecond
	// leftoverGrace is how long processes that outlive a command or a server may take to end after TERM. It
	// is short, since the call waits for them; a call that is stopped gives them its whole grace.
	leftoverGrace = 500 * time.Millisecond
)

// family is a command or a server with everything that it started: the process group of its leader and, on
// Linux, where they can be found, the processes that have left the group (setsid, a daemon, a shell's job).
// On Windows it is the leader's job object, which no process can leave. It has one owner.
type family struct {
	leader int            // its id is also that of the group
	mark   string         // its variable from NewMark; "" = not marked
	seen   map[int]string // when the strays began, by their ids
	empty  bool           // the group has ended: its id may be that of another one now
}

// EndFamily ends the rest of a process group whose leader has ended by itself and was waited for, and all
// processes with the mark (see [NewMark]; "" = none). It sends TERM, and KILL half a second later. It returns
// when nothing is left, at the latest 2 s after KILL.
func EndFamily(pgid int, mark string) { (&family{leader: pgid, mark: mark}).endRest() }

func (f *family) endRest() {
	if !f.gone() {
		f.signal(syscall.SIGTERM)
		f.end(leftoverGrace)
	}
}

// end waits for the rest of a family whose leader was waited for, perhaps in vain, and kills it after the
// grace.
func (f *family) end(grace time.Duration) {
	if !f.wait(grace) {
		f.signal(syscall.SIGKILL)
		f.wait(KillWait)
	}
}

func (f *family) wait(limit time.Duration) bool {
	for deadline := time.Now().Add(limit); !f.gone(); time.Sleep(groupPoll) {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}
