package partials

import "sync/atomic"

// Memory limits what the logs of one process without a backing keep, together, for later readers. Each keeps at least what a log with a
// backing does, and a log that has ended keeps what it has.
// Set the same one as LogOptions.Memory of all of them; a tasks.Runner does.
type Memory struct {
	long atomic.Int64 // logs that are still written and hold more than the least
}

const (
	defaultRetain = 8 << 20
	// backedRetain is what memory keeps of a log with a backing, so that a reader that has almost caught up needs no disk.
	backedRetain = 256 << 10
	// sharedRetain is more than a single log keeps, so that one long log, or a short one, is not affected by the others.
	sharedRetain = 10 << 20
)

// each is how much one of the long logs may keep, given that it would keep retain if it were alone.
func (m *Memory) each(retain int64) int64 {
	return min(retain, max(sharedRetain/max(m.long.Load(), 1), backedRetain))
}
