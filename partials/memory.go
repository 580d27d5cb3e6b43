package partials

import "sync/atomic"

// Memory is what the logs of one process that have no backing may keep together for readers still to come. A log keeps no less than one
// with a backing does, and a log that ends keeps what it has.
type Memory struct {
	long atomic.Int64 // logs that are being written and hold more than the least
}

// sharedRetain is more than one log keeps, so that one alone, or a short one, notices nothing of the others.
const sharedRetain = 12 << 20

// each is what one of the long logs may keep that would keep retain alone.
func (m *Memory) each(retain int64) int64 {
	return min(retain, max(sharedRetain/max(m.long.Load(), 1), backedRetain))
}

// share makes shared count the log if it is long, or no more. l.mu is held.
func (l *Log) share(long bool) {
	if l.shared == nil || l.long == long {
		return
	}
	l.long = long
	if long {
		l.shared.long.Add(1)
	} else {
		l.shared.long.Add(-1)
	}
}
