package partials

import (
	"errors"
	"fmt"
)

// With a backing, Append waits for the backing and for no slow reader: a reader that lags, or came late, reads what the backing has
// saved. Append waits only for one that would lose something by it (SetLimit).
//
//	Append ─▶ Log ─ Unsaved ─▶ the backing's owner writes ─ MarkSaved ─▶ memory is let go
//	           └─ Next ─ Reader ◀─ Load ─ backing

const (
	// loadBytes is what a reader that lags takes from the backing at once: a full partial of the default size.
	loadBytes = 64 << 10
	// dueBytes is when a log's backing is hurried: well before Append waits.
	dueBytes = 128 << 10
)

// Back gives the log a backing, for all that memory still holds and all that comes. A log has one at a time; one that comes back
// after Unback goes on after what it has saved. Back may be called while the log is written and read.
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

// SetLimit bounds what a backing keeps of the log, in bytes: the head and the tail of it, each more than a quarter.
func (l *Log) SetLimit(bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limit = bytes
}

// Limit is what SetLimit has set, 0 if nothing.
func (l *Log) Limit() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.limit
}

// due reports to the backing what is due, each urgency once until it has taken everything. l.mu is held.
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

// Unsaved returns the next extent that the backing does not have, of about limit bytes. Its owner calls it until
// there is none, writes what it got, and calls MarkSaved or, if it could not be written, Fail or Retry.
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

// MarkSaved says that the backing has all that Unsaved returned.
func (l *Log) MarkSaved() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.saved = l.saver
	l.trim()
	l.wakeAppends()
	l.due()
}

// Retry gives back what Unsaved returned since MarkSaved: it could not be written.
func (l *Log) Retry() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.saver, l.told = l.saved, nothingDue
}

// ErrLost refuses an append to a log whose backing has failed.
var ErrLost = errors.New("the output could not be stored")

// Fail says that the backing cannot keep the output. Appends fail from now on, with ErrLost and the reason.
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

// Failed is why the log's output could not be stored, nil if it could.
func (l *Log) Failed() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}
