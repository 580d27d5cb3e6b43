package process

import (
	"syscall"
	"time"
)

const (
	// leftoverGrace is how long processes that outlive a command or a server may take to end after TERM.
	// Nobody asked for them to go on, and the call waits for them; a call that is stopped gives them its whole grace.
	leftoverGrace = 500 * time.Millisecond
)

// family is a command or a server and all that it started: the process group of its leader, and who has left that (setsid, a daemon, a
// job of a shell), where the system shows whose a process is (Linux); on Windows the job object of its leader, which nobody leaves.
// It has one owner.
type family struct {
	leader int            // its id is that of the group
	mark   string         // its variable of NewMark, "" if it has none
	seen   map[int]string // strays by their id, and when they began
}

// EndFamily ends what is left of a process group whose leader has ended by itself and has been waited for, and of what has the mark of
// [NewMark], "" if none: by TERM, and by KILL half a second later. It returns when nothing is left, 2 s after KILL at the latest.
func EndFamily(pgid int, mark string) { (&family{leader: pgid, mark: mark}).endRest() }

func (f *family) endRest() {
	if !f.gone() {
		f.signal(syscall.SIGTERM)
		f.end(leftoverGrace)
	}
}

// end waits for what is left of a family whose leader has been waited for, perhaps in vain, and kills it after the grace.
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
