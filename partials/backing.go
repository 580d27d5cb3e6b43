package partials

import (
	"errors"
	"fmt"
)

// With a backing, Append waits for the backing and not for slow readers: a reader that lags or comes late reads what the backing has saved.
// Append only waits for a reader that would otherwise lose something (SetLimit).
//
//	Append ─▶ Log ─ Unsaved ─▶ the backing's owner writes ─ MarkSaved ─▶ memory is let go
//	           └─ Next ─ Reader ◀─ Load ─ backing

const (
	// loadBytes is what a lagging reader takes from the backing at once: a full partial of the default size.
	loadBytes = 64 << 10
	// dueBytes is when the log hurries its backing: well before Append waits.
	dueBytes = 128 << 10
)

// Back gives the log a backing for everything that memory still holds and everything that follows. A log has one at a time; one that comes
// back after Unback continues after what it has saved. Back may be called while the log is written and read.
func (l *Log) Back(b Backing) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.backing != nil {
		panic("internal error: the log has a backing")
	}
	l.backing, l.told = b, nothingDue
	l.retain = min(l.retain, backedRetain)
	l.share(false)
	pos := max(l.saved.pos, l.from())
	l.saved = cursor{pos: pos, cost: l.cost - (l.end - pos)}
	l.saver = l.saved
	l.wakeAppends()
	l.due()
}

// Unback takes the log's backing away: the log keeps what is in memory, and loses what only the backing has.
// Call it when the backing will get nothing more.
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

// SetLimit bounds what a backing keeps of the log, in bytes: its head and its tail, each more than a quarter.
// Call it before the work starts.
func (l *Log) SetLimit(bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limit = bytes
}

// Limit returns what SetLimit has set, 0 if nothing.
func (l *Log) Limit() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.limit
}

// due tells the backing what is due, each urgency once until the backing has taken everything. l.mu is held.
func (l *Log) due() {
	if l.backing == nil || l.failed != nil || l.saved.pos == l.end {
		return
	}
	now := somethingDue
	if l.cost-l.saved.cost >= dueBytes {
		now = muchDue
	}
	if now > l.told {
		l.told = now
		l.backing.Due(now == muchDue)
	}
}

// Unsaved returns the next extent that the backing does not have, of about limit bytes. The backing's owner calls it until there is none,
// writes what it got, and calls MarkSaved or, if that could not be written, Fail or Retry.
func (l *Log) Unsaved(limit int) (Extent, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.backing == nil || l.failed != nil {
		return Extent{}, false
	}
	blocks, n, at := place(l.blocks, l.saver.pos)
	if blocks == nil {
		l.told = nothingDue
		return Extent{}, false
	}
	b := fill(blocks[:1], n, at, limit, 0, nil) // one block, so that nothing is copied
	l.saver.pos, l.saver.cost = b.End, l.saver.cost+b.cost()
	s := Extent{Start: b.Start, Marks: make([]byte, 0, 2*len(b.records)), Data: b.bytes()}
	begin := b.begin
	for i := range b.records {
		r := &b.records[i]
		s.mark(r, int(r.end)-begin)
		begin = int(r.end)
	}
	return s, true
}

// MarkSaved records that the backing has everything that Unsaved returned.
func (l *Log) MarkSaved() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.saved = l.saver
	l.trim()
	l.wakeAppends()
	l.due()
}

// Retry gives back what Unsaved has returned since MarkSaved, because it could not be written.
// Call it when the next try may succeed.
func (l *Log) Retry() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.saver, l.told = l.saved, nothingDue
}

// ErrLost refuses an append to a log whose backing has failed.
// A tool that gets it should return, since nothing more that it writes can be kept.
var ErrLost = errors.New("the output could not be stored")

// Fail records that the backing cannot keep the output. From now on appends fail with ErrLost and the reason.
// A backing's owner calls it when the error will not go away, otherwise Retry.
func (l *Log) Fail(reason error) {
	l.mu.Lock()
	first := l.failed == nil
	if first {
		l.failed = fmt.Errorf("%w: %w", ErrLost, reason)
		l.wakeAppends()
	}
	failed, lost := l.failed, l.lost
	l.mu.Unlock()
	if first && lost != nil {
		lost(failed)
	}
}

// Failed returns why the log's output could not be stored, nil if it could.
// Ask it at the end of a task: a result whose output is lost must not count as completed.
func (l *Log) Failed() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}
