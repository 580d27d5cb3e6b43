package partials

import "context"

// Backing keeps the output of one log beyond what memory holds of it. With one, Append waits for the backing
// and for no slow reader: a reader that fell behind, or came late, reads what the backing has kept. Only for one that would
// lose something by it Append waits (see Limit).
//
//	Append ─▶ Log ─ Unkept ─▶ the backing's owner writes ─ Kept ─▶ memory is let go
//	           └─ Next ─ Reader ◀─ Load ─ backing
type Backing interface {
	// Due tells that the log has output that the backing does not have; full, that Append may soon wait for it.
	// It is called under the log's lock: it must not block, nor call the log.
	Due(full bool)

	// Load returns stretches that follow each other, about limit bytes together: from the one that holds
	// position pos on, or, if what stood there is gone, from the next one behind it. None means that nothing
	// from pos on is kept.
	Load(ctx context.Context, pos int64, limit int) ([]Stretch, error)
}

const (
	// loadBytes is what a reader that is behind takes from the backing at once: a full partial of the default size.
	loadBytes = 64 << 10
	// backedRetain is what memory keeps of a log with a backing, so that a reader that is nearly there needs no disk.
	backedRetain = 256 << 10
	// dueBytes is when a log's backing is hurried: well before Append waits.
	dueBytes = 128 << 10
)

// Back gives the log a backing, for all that memory still holds and all that comes. A log has one at a time; one that comes back
// after Unback goes on behind what it has kept. Back may be called while the log is written and read.
func (l *Log) Back(b Backing) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.backing != nil {
		panic("internal error: the log has a backing")
	}
	l.backing, l.told = b, nothingDue
	l.retain = min(l.retain, backedRetain)
	l.share(false)
	l.kept = max(l.kept, l.memory())
	l.keeper = Reader{log: l, pos: l.kept, cost: l.cost - (l.end - l.kept)}
	l.keptCost = l.keeper.cost
	l.wakeAppends()
	if l.kept < l.end {
		l.tell()
	}
}

// Unback takes the log's backing away: what is in memory stays, and what the backing alone has is lost to the log.
func (l *Log) Unback() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.backing = nil
	l.wakeAppends()
}

// Backed reports whether the log has a backing.
func (l *Log) Backed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.backing != nil
}

// memory is the position from which on memory holds the log. l.mu is held.
func (l *Log) memory() int64 {
	if len(l.blocks) == 0 {
		return l.end
	}
	return l.blocks[0].start
}

// Limit bounds what a backing keeps of the log, in bytes: the head and the tail of it, each more than a quarter.
func (l *Log) Limit(bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limit = bytes
}

// Limits returns what Limit has set, 0 if nothing.
func (l *Log) Limits() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.limit
}
