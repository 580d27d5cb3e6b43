package partials

import (
	"context"
	"errors"
	"sync"
)

// ErrClosed refuses an append to a log whose task has ended.
var ErrClosed = errors.New("the task's log is closed")

// LogOptions of a Log. The zero value works, and so does nil.
type LogOptions struct {
	MaxPending int // bytes that the slowest reader may be behind before Append waits; 0 = 1 MiB
	Retain     int // bytes of memory that are kept for readers still to come, beyond what present ones need; 0 = 8 MiB
	// Lost is told when the log's backing has failed (Log.Fail); nothing can be appended any more. It must not block.
	Lost func(reason error)
	// Spill is called once, by an Append that waits for it, before memory lets go of anything that no backing has: it may
	// give the log one (Back). If it does not, what readers still to come may want is lost from then on.
	Spill func()
}

const (
	defaultMaxPending = 1 << 20
	defaultRetain     = 8 << 20
	firstBlock        = 1 << 10   // most logs are short
	maxBlock          = 64 << 10  // large enough that a block costs nothing, small enough to be let go soon
	maxText           = 64 << 10  // longer text is cut when it is appended: escaped sixfold it stays well below the 1 MiB of a line
	maxWeight         = 900 << 10 // of one batch as JSON at worst: the line that carries it stays below 1 MiB
	minCost           = 16        // of a chunk, in bytes of memory: its record counts too
	itemOverhead      = 64        // of a content item around its text
)

// Log is the append-only output of one task. A position in it is the number of bytes of data before it.
type Log struct {
	maxPending, retain int64

	mu      sync.Mutex
	blocks  []*block // oldest first; data before blocks[0].start is gone
	end     int64
	cost    int64 // of all that was appended, with minCost of each chunk at least
	gone    int64 // of them, what memory has let go
	closed  bool
	readers []*Reader     // those that Append waits for
	waiting []*Reader     // those in Wait
	room    chan struct{} // closed when a reader has moved on; nil if no Append waits

	// With a backing (backing.go).
	backing  Backing
	keeper   Reader // what Unkept has returned
	kept     int64  // the backing has what stands before this position
	keptCost int64
	told     uint8 // what Due was told since Unkept found nothing: 1 that there is something, 2 that it is much
	followed bool  // somebody else writes the log
	failed   error // why the backing cannot keep it
	limit    int64 // of Limit
	lost     func(error)
	spill    func() // nil once it has been called
	spilling bool   // it has not returned
}

// NewLog makes an empty log.
func NewLog(o *LogOptions) *Log {
	l := &Log{maxPending: defaultMaxPending, retain: defaultRetain}
	if o != nil && o.MaxPending > 0 {
		l.maxPending = int64(o.MaxPending)
	}
	if o != nil && o.Retain > 0 {
		l.retain = int64(o.Retain)
	}
	if o != nil {
		l.lost, l.spill = o.Lost, o.Spill
	}
	return l
}

// Append adds the chunks of one write and copies their data. It waits while the slowest reader, or else the
// backing if there is one, is too far behind, until ctx ends. The chunks stay together, in the order of the calls.
func (l *Log) Append(ctx context.Context, chunks ...Chunk) error {
	size := int64(0)
	for i := range chunks {
		size += max(int64(len(chunks[i].Data)), minCost)
	}
	l.mu.Lock()
	if err := l.admit(ctx, size); err != nil {
		l.mu.Unlock()
		return err
	}
	for i := range chunks {
		l.write(&chunks[i])
	}
	l.publish()
	return nil
}

// AppendLines is Append of the lines of a text, each a write and a chunk of its own, and Whole. ends are where they end in text, the last one at its
// end. To make chunks of them took three times as long for short lines.
func (l *Log) AppendLines(ctx context.Context, stream Stream, text []byte, ends []int) error {
	size, begin := int64(0), 0
	for _, end := range ends {
		size += max(int64(end-begin), minCost)
		begin = end
	}
	l.mu.Lock()
	if err := l.admit(ctx, size); err != nil {
		l.mu.Unlock()
		return err
	}
	l.writeLines(stream, text, ends)
	l.publish()
	return nil
}

// publish ends an append, and gives back l.mu.
func (l *Log) publish() {
	l.trim()
	l.due()
	wake := l.wake()
	l.mu.Unlock()
	if wake != nil {
		wake(true)
	}
}

// admit waits until there is room for size. l.mu is held, but for the time that is waited.
func (l *Log) admit(ctx context.Context, size int64) error {
	l.awaitReaders(ctx)
	for !l.closed && l.failed == nil {
		if l.spill != nil && l.backing == nil && l.cost+size >= l.retain {
			l.spillNow()
			continue
		}
		pending := l.pending()
		if !l.spilling && (pending == 0 || pending+size <= l.maxPending) && !l.loses() {
			break
		}
		if !l.awaitRoom(ctx.Done()) {
			return context.Cause(ctx)
		}
	}
	switch {
	case l.closed || l.followed:
		return ErrClosed
	case l.failed != nil:
		return l.failed
	}
	return nil
}

// awaitRoom waits until a reader or the backing has moved on, and reports false if stop comes first. l.mu is held before
// and after, and not meanwhile.
func (l *Log) awaitRoom(stop <-chan struct{}) bool {
	if l.room == nil {
		l.room = make(chan struct{})
	}
	room := l.room
	l.mu.Unlock()
	defer l.mu.Lock()
	select {
	case <-room:
		return true
	case <-stop:
		return false
	}
}

// spillNow calls spill. l.mu is held before and after, and not meanwhile.
func (l *Log) spillNow() {
	spill := l.spill
	l.spill, l.spilling = nil, true
	l.mu.Unlock()
	spill()
	l.mu.Lock()
	l.spilling = false
	l.moved()
}

// pending is what the reader that is furthest behind has not read, as memory. l.mu is held.
func (l *Log) pending() int64 {
	if l.backing != nil {
		return l.cost - l.keptCost
	}
	most := int64(0)
	for _, r := range l.readers {
		if r.pos < l.end {
			most = max(most, l.cost-r.cost)
		}
	}
	return most
}

// slowest is the position of the reader that is furthest behind. l.mu is held.
func (l *Log) slowest() int64 {
	if l.backing != nil {
		return l.kept
	}
	pos := l.end
	for _, r := range l.readers {
		pos = min(pos, r.pos)
	}
	return pos
}

// trim lets go of blocks that no reader needs and that are not kept for later ones. l.mu is held.
func (l *Log) trim() {
	if len(l.blocks) < 2 || l.cost-l.blocks[0].cost < l.retain {
		return
	}
	slowest := l.slowest()
	drop := 0
	for drop < len(l.blocks)-1 && l.blocks[drop].end() <= slowest && l.cost-l.blocks[drop].cost >= l.retain {
		drop++
	}
	if drop > 0 {
		l.gone = l.blocks[drop-1].cost
	}
	clear(l.blocks[:drop])
	l.blocks = l.blocks[drop:]
}

// wake wakes the readers that have what they wait for. What it returns, if anything, wakes one that is parked: it must be
// called when l.mu is not held any more. l.mu is held.
func (l *Log) wake() (parked func(hurry bool)) {
	kept := l.waiting[:0]
	for _, r := range l.waiting {
		switch {
		case !l.closed && l.end-r.pos < r.want:
			kept = append(kept, r)
		case r.wake == nil:
			r.ready <- struct{}{} // never blocks: a reader waits at most once at a time
		case parked == nil:
			parked = r.wake
		default:
			go r.wake(false)
		}
	}
	clear(l.waiting[len(kept):])
	l.waiting = kept
	return parked
}

// moved wakes the appends that wait for room. l.mu is held.
func (l *Log) moved() {
	if l.room != nil {
		close(l.room)
		l.room = nil
	}
}

// Close ends the log: readers read what is there, then io.EOF.
func (l *Log) Close() {
	var wake func(bool)
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		wake = l.wake()
		l.moved()
	}
	l.mu.Unlock()
	if wake != nil {
		wake(true)
	}
}

// Closed tells whether the log has ended.
func (l *Log) Closed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// Size is the position of the log's end: how many bytes were appended.
func (l *Log) Size() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.end
}

// Grown returns when the log is longer than size, with io.EOF when it never will be, or with ctx's error.
func (l *Log) Grown(ctx context.Context, size int64) error {
	r := Reader{log: l, tail: true, pos: size, ready: make(chan struct{}, 1)}
	return r.Wait(ctx, 1)
}

// Held is how many bytes of memory the log's data takes.
func (l *Log) Held() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := int64(0)
	for _, b := range l.blocks {
		n += int64(cap(b.data)) + int64(cap(b.records))*8
	}
	return n
}
