package partials

import (
	"errors"
	"fmt"
)

// urgency is what a backing was told.
type urgency uint8

const (
	nothingDue   urgency = iota
	somethingDue         // there is something for it
	muchDue              // there is so much that Append may soon wait
)

// tell tells the backing what is due, each urgency once until it has taken everything. l.mu is held.
func (l *Log) tell() {
	if l.backing == nil || l.failed != nil || l.kept == l.end {
		return
	}
	now := somethingDue
	if l.cost-l.keptCost >= dueBytes {
		now = muchDue
	}
	if now > l.told {
		l.told = now
		l.backing.Due(now == muchDue)
	}
}

// Unkept returns the next stretch that the backing does not have, of about limit bytes. Its owner calls it until
// there is none, writes what it got, and calls Kept or, if it could not be written, Fail or Retry.
func (l *Log) Unkept(limit int) (Stretch, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.backing == nil || l.failed != nil {
		return Stretch{}, false
	}
	if s, ok := l.keeper.stretch(limit); ok {
		return s, true
	}
	b, ok := l.keeper.next(limit)
	if !ok {
		l.told = nothingDue
		return Stretch{}, false
	}
	s := Stretch{Start: b.Start, Data: make([]byte, 0, b.End-b.Start)}
	for i := range b.Chunks {
		c := &b.Chunks[i]
		s.Data = append(s.Data, c.Data...)
		s.mark(&record{kind: c.Kind, stream: c.Stream, more: c.More, whole: c.Whole}, len(c.Data))
	}
	return s, true
}

// stretch reads what next would, as a stretch, where that is whole writes of one block: nearly always. The data is not copied,
// and of a chunk only its mark is made. log.mu is held.
func (r *Reader) stretch(limit int) (Stretch, bool) {
	b, n, begin := locate(r.log.blocks, r.pos)
	if b == nil {
		return Stretch{}, false
	}
	s := Stretch{Start: r.pos, Marks: make([]byte, 0, 2*(len(b.records)-n))}
	at, cost := begin, int64(0)
	whole, marks, wholeCost := begin, 0, int64(0) // of whole writes
	for ; n < len(b.records) && int(b.records[n].end) <= begin+limit; n++ {
		rec := &b.records[n]
		size := int(rec.end) - at
		s.mark(rec, size)
		cost += costOf(size)
		if at = int(rec.end); !rec.more {
			whole, marks, wholeCost = at, len(s.Marks), cost
		}
	}
	s.Marks, s.Data = s.Marks[:marks], b.data[begin:whole:whole]
	r.pos += int64(len(s.Data))
	r.cost += wholeCost
	return s, whole > begin
}

// Kept tells that the backing has all that Unkept returned.
func (l *Log) Kept() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept, l.keptCost = l.keeper.pos, l.keeper.cost
	l.trim()
	l.wakeAppends()
	l.tell()
}

// Retry gives back what Unkept returned since Kept: it could not be written.
func (l *Log) Retry() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.keeper.pos, l.keeper.cost, l.told = l.kept, l.keptCost, nothingDue
}

// ErrLost refuses an append to a log whose backing has failed.
var ErrLost = errors.New("the output could not be stored")

// Fail tells that the backing cannot keep the output. Appends fail from now on, with ErrLost and the reason.
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
