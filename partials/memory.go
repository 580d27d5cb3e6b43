package partials

import "sync/atomic"

// Memory limits how much all logs of a process that have no backing keep for later readers. Each keeps at least as much as a log with a
// backing, and a log that has ended keeps what it has.
// Set the same one as LogOptions.Memory of all these logs; a tasks.Runner does.
type Memory struct {
	long atomic.Int64 // logs that are still written and hold more than backedRetain
}

const (
	defaultRetain = 8 << 20
	// backedRetain is what memory keeps of a log with a backing, so that a reader that has almost caught up needs no disk.
	backedRetain = 256 << 10
	// sharedRetain is more than a single log keeps, so that a log which is the only long one, or a short one, is not affected.
	sharedRetain = 10 << 20
)

// share is how much one of the long logs may keep, given that it would keep retain if it were alone.
func (m *Memory) share(retain int64) int64 {
	return min(retain, max(sharedRetain/max(m.long.Load(), 1), backedRetain))
}
