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
	blocks, n, at := l.keeper.place()
	if blocks == nil {
		l.told = nothingDue
		return Stretch{}, false
	}
	b := l.keeper.take(blocks[:1], n, at, limit) // of one block, so that nothing is copied
	s := Stretch{Start: b.Start, Marks: make([]byte, 0, 2*len(b.records)), Data: b.bytes()}
	begin := b.begin
	for i := range b.records {
		r := &b.records[i]
		s.mark(r, int(r.end)-begin)
		begin = int(r.end)
	}
	return s, true
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
