package partials

import "sync/atomic"

// Memory is what the logs of one process that have no backing may keep together for readers still to come. A log keeps no less than one
// with a backing does, and a log that ends keeps what it has.
type Memory struct {
	long atomic.Int64 // logs that are being written and hold more than the least
}

const (
	defaultRetain = 8 << 20
	// backedRetain is what memory keeps of a log with a backing, so that a reader that is nearly there needs no disk.
	backedRetain = 256 << 10
	// sharedRetain is more than one log keeps, so that one alone, or a short one, notices nothing of the others.
	sharedRetain = 12 << 20
)

// each is what one of the long logs may keep that would keep retain alone.
func (m *Memory) each(retain int64) int64 {
	return min(retain, max(sharedRetain/max(m.long.Load(), 1), backedRetain))
}
