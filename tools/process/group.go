package process

import "time"

const (
	// KillWait is how long a child, and then its group, may take to be gone after KILL before the call ends anyway (a process may be in an
	// uninterruptible wait, or a debugger may hold it).
	KillWait = 2 * time.Second
	// groupPoll is how often a group without a leader is checked, since nothing announces its end.
	groupPoll = 10 * time.Millisecond
)
