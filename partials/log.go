package partials

import (
	"context"
	"errors"
	"slices"
	"sync"

	"runnel/rpc/mcp"
)

// ErrClosed refuses an append to a log whose task has ended.
var ErrClosed = errors.New("the task's log is closed")

// LogOptions of a Log. The zero value works, and so does nil.
type LogOptions struct {
	MaxPending int // bytes that the slowest reader may be behind before Append waits; 0 = 1 MiB
	Retain     int // bytes of memory that are kept for readers still to come, beyond what present ones need; 0 = 8 MiB
	// Memory is shared by logs without a backing: when many of them are long, each keeps less. nil = with no other.
	Memory *Memory
	// Lost is told when the log's backing has failed (Log.Fail); nothing can be appended any more. It must not block.
	Lost func(reason error)
	// Spill is called once, by an Append that waits for it, before memory lets go of anything that no backing has: it may
	// give the log one (Back). If it does not, what readers still to come may want is lost from then on.
	Spill func()
}

const (
	defaultMaxPending = 1 << 20
	defaultRetain     = 8 << 20
	firstBlock        = 1 << 10         // most logs are short
	maxBlock          = 64 << 10        // large enough that a block costs nothing, small enough to be let go soon
	maxText           = mcp.MaxText / 2 // longer text is cut when it is appended
	minCost           = 16              // of a chunk, in bytes of memory: its record counts too
	itemOverhead      = 64              // of a content item around its text
)

// Log is the append-only output of one task. A position in it is the number of bytes of data before it.
//
// Who waits for whom:
//
//   - Append waits for room (admit): without a backing until the slowest reader has read on, with one until the backing has taken
//     what there is, and for readers only as behind.go says. A reader that has read on or is closed calls wakeAppends, and so does
//     the backing's owner (Kept).
//   - A reader waits for output (Wait). Append, Grow and Close wake it (wakeReaders).
//   - The backing's owner waits for Due, which Append calls.
//
// The lock of the log covers its readers' positions, too. It is the innermost: a lane's lock, Pump.mu and Segments.mu are taken before
// it, in this order, and under it nothing waits and nothing is called but Backing.Due.
type Log struct {
	maxPending int64
	lost       func(error)

	mu       sync.Mutex
	end      int64
	cost     int64 // of all that was appended (costOf)
	closed   bool
	followed bool  // somebody else writes the log (follow.go)
	failed   error // why the backing cannot keep it

	// What memory holds.
	blocks []*block // oldest first; data before blocks[0].start is gone
	gone   int64    // cost of that
	retain int64    // LogOptions.Retain; less with a backing
	shared *Memory  // LogOptions.Memory
	long   bool     // shared counts it

	// Who waits.
	readers []*Reader     // those that Append waits for
	waiting []*Reader     // those in Wait
	room    chan struct{} // closed when a reader or the backing has moved on; nil if no Append waits

	// The backing (backing.go, keeper.go).
	backing  Backing // nil if there is none
	keeper   Reader  // what Unkept has returned
	kept     int64   // the backing has what stands before this position
	keptCost int64   // cost of that
	told     urgency // what Due has said since Unkept found nothing
	limit    int64   // of Limit
	spill    func()  // LogOptions.Spill; nil once it has been called
	spilling bool    // it has not returned
}

// NewLog makes an empty log.
func NewLog(o *LogOptions) *Log {
	l := &Log{maxPending: defaultMaxPending, retain: defaultRetain}
	if o == nil {
		return l
	}
	if o.MaxPending > 0 {
		l.maxPending = int64(o.MaxPending)
	}
	if o.Retain > 0 {
		l.retain = int64(o.Retain)
	}
	l.lost, l.spill, l.shared = o.Lost, o.Spill, o.Memory
	return l
}

// Append adds the chunks of one write and copies their data. It waits while the slowest reader, or else the
// backing if there is one, is too far behind, until ctx ends. The chunks stay together, in the order of the calls.
func (l *Log) Append(ctx context.Context, chunks ...Chunk) error {
	size := int64(0)
	for i := range chunks {
		size += costOf(len(chunks[i].Data))
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
		size += costOf(end - begin)
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
	l.share(!l.closed && l.backing == nil && l.cost >= backedRetain)
	l.trim()
	l.tell()
	l.wakeReaders()
	l.mu.Unlock()
}

// admit waits until size more may be appended. l.mu is held before and after, and not while it waits.
func (l *Log) admit(ctx context.Context, size int64) error {
	l.awaitReaders(ctx)
	for {
		switch {
		case l.closed || l.followed:
			return ErrClosed
		case l.failed != nil:
			return l.failed
		case l.spill != nil && l.backing == nil && l.cost+size >= l.retain:
			l.spillNow()
		case l.hasRoom(size):
			return nil
		case !l.awaitRoom(ctx.Done()):
			return context.Cause(ctx)
		}
	}
}

// hasRoom reports whether nobody is too far behind for size more. What is larger than maxPending waits until all is read. l.mu is held.
func (l *Log) hasRoom(size int64) bool {
	pending := l.pending()
	return !l.spilling && (pending == 0 || pending+size <= l.maxPending) && !l.loses()
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
	l.wakeAppends()
}

// pending is what the one that is furthest behind has not read, as memory: the backing, or else a reader. l.mu is held.
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

// slowest is the position of the one that is furthest behind. l.mu is held.
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
	retain := l.retain
	if l.long && l.spill == nil { // with one, nothing is let go before it has been called
		retain = l.shared.each(retain)
	}
	if len(l.blocks) < 2 || l.cost-l.blocks[0].cost < retain {
		return
	}
	slowest := l.slowest()
	drop := 0
	for drop < len(l.blocks)-1 && l.blocks[drop].end() <= slowest && l.cost-l.blocks[drop].cost >= retain {
		drop++
	}
	if drop > 0 {
		l.gone = l.blocks[drop-1].cost
	}
	clear(l.blocks[:drop])
	l.blocks = l.blocks[drop:]
}

// wakeReaders wakes the readers that have what they wait for. l.mu is held.
func (l *Log) wakeReaders() {
	l.waiting = slices.DeleteFunc(l.waiting, func(r *Reader) bool {
		if !l.closed && l.end-r.pos < r.want {
			return false
		}
		r.ready <- struct{}{} // never blocks: a reader waits at most once at a time
		return true
	})
}

// wakeAppends lets the appends that wait for room look again. l.mu is held.
func (l *Log) wakeAppends() {
	if l.room != nil {
		close(l.room)
		l.room = nil
	}
}

// Close ends the log: readers read what is there, then io.EOF.
func (l *Log) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.closed = true
		l.share(false)
		l.wakeReaders()
		l.wakeAppends()
	}
}

// Closed reports whether the log has ended.
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

// Lag is how many bytes the reader that is furthest behind has not read.
func (l *Log) Lag() (lag int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.readers {
		lag = max(lag, l.end-r.pos)
	}
	return lag
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
