package partials

import (
	"context"
	"errors"
	"io"
	"math"
	"slices"
	"sync"
)

// ErrClosed refuses an append to a log whose task has ended.
var ErrClosed = errors.New("the task's log is closed")

// LogOptions of a Log. The zero value works, and so does nil.
type LogOptions struct {
	MaxPending int // bytes that the slowest reader may lag before Append waits; 0 = DefaultMaxPending
	Retain     int // bytes of memory that are kept for readers still to come, beyond what present ones need; 0 = 8 MiB
	// Memory is shared by logs without a backing: when many of them are long, each keeps less. nil = with no other.
	Memory *Memory
	// Lost is called when the log's backing has failed (Log.Fail); nothing can be appended any more. It must not block.
	Lost func(reason error)
	// Spill is called once, by an Append that waits for it, before memory lets go of anything that no backing has: it may
	// give the log one (Back). If it does not, what readers still to come may want is lost from then on.
	Spill func()
}

// DefaultMaxPending is LogOptions.MaxPending where nothing is said.
const DefaultMaxPending = 1 << 20

// Backing keeps the output of one log beyond what memory holds of it (backing.go).
type Backing interface {
	// Due says that the log has output that the backing does not have; full, that Append may soon wait for it.
	// It is called under the log's lock: it must not block, nor call the log.
	Due(full bool)

	// Load returns extents that follow each other, about limit bytes together: from the one that holds
	// position pos on, or, if what stood there is gone, from the next one after it. None means that nothing
	// from pos on is kept.
	Load(ctx context.Context, pos int64, limit int) ([]Extent, error)
}

// Log is the append-only output of one task. A position in it is the number of bytes of data before it.
//
// Who waits for whom:
//
//   - Append waits for room (append.go): without a backing until the slowest reader has read on, with one until the backing has taken
//     what there is. A reader that has read on or is closed calls wakeAppends, and so does the backing's owner (MarkSaved).
//   - A reader waits for output (watch). Append, Grow and Close wake it (wakeReaders).
//   - The backing's owner waits for Due, which Append calls.
//
// The lock of the log covers its readers' cursors, too. It is the innermost: Pump.mu and Segments.mu are taken before
// it, in this order, and under it nothing waits and nothing is called but Backing.Due and what wakes a reader.
type Log struct {
	maxPending int64
	lost       func(error)

	mu sync.Mutex
	held
	retain   int64   // LogOptions.Retain; less with a backing
	shared   *Memory // LogOptions.Memory
	long     bool    // shared counts it
	closed   bool
	followed bool  // somebody else writes the log (follow.go)
	failed   error // why the backing cannot keep it

	// The waiters.
	readers  []*cursor     // those that Append waits for
	expected *cursor       // one of them, which stands for the first to come (Expect)
	room     chan struct{} // closed when a reader or the backing has moved on; nil if no Append waits
	waiters  []*waiter     // readers that wait for output

	// The backing (backing.go).
	backing  Backing // nil if there is none
	saver    cursor  // the end of the last extent that Unsaved returned
	saved    cursor  // the end of what the backing has
	told     urgency // the last one that Due has said since Unsaved found nothing
	limit    int64   // see SetLimit
	spill    func()  // LogOptions.Spill; nil once it has been called
	spilling bool    // it has not returned
}

// urgency is what a backing was told.
type urgency uint8

const (
	nothingDue   urgency = iota
	somethingDue         // there is something for it
	muchDue              // there is so much that Append may soon wait
)

// waiter is a reader that waits for output.
type waiter struct {
	wake func() // called once for each watch, under the log's lock

	// Guarded by log.mu.
	waits bool
	at    int64 // how long the log must be
}

// cursor is how far somebody has read a log.
type cursor struct {
	pos  int64
	cost int64 // about what stands before pos counts (costOf)
}

// NewLog makes an empty log.
func NewLog(o *LogOptions) *Log {
	l := &Log{maxPending: DefaultMaxPending, retain: defaultRetain}
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

// await returns when at least n bytes are there for c to read or the log is closed; io.EOF when it is closed and all is read; or ctx's
// error. What is there already is returned even when ctx is done.
func (l *Log) await(ctx context.Context, c *cursor, n int64) error {
	grown := make(chan struct{})
	w := &waiter{wake: func() { close(grown) }}
	l.watch(w, c, n)
	select {
	case <-grown:
	case <-ctx.Done():
		l.unwatch(w)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch pending := l.end - c.pos; {
	case pending > 0 && (pending >= n || l.closed):
		return nil
	case l.closed:
		return io.EOF
	}
	return context.Cause(ctx)
}

// watch wakes w when at least n bytes are there for c to read or the log is closed: at once if that is so already.
func (l *Log) watch(w *waiter, c *cursor, n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w.at = c.pos + min(n, math.MaxInt64-c.pos)
	if w.waits = !l.closed && l.end < w.at; w.waits {
		l.waiters = append(l.waiters, w)
	} else {
		w.wake()
	}
}

// hasten lets w, if it still waits, be woken by the first byte that is there for c to read.
func (l *Log) hasten(w *waiter, c *cursor) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w.waits {
		w.at = c.pos + 1
		l.wakeReaders()
	}
}

// unwatch ends the wait of w, if it waits.
func (l *Log) unwatch(w *waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w.waits = false
	l.wakeReaders()
}

// wakeReaders wakes the readers that have what they wait for. l.mu is held.
func (l *Log) wakeReaders() {
	l.waiters = slices.DeleteFunc(l.waiters, func(w *waiter) bool {
		if ready := l.closed || l.end >= w.at; ready && w.waits {
			w.waits = false
			w.wake()
		}
		return !w.waits
	})
}

// awaitRoom waits for wakeAppends, and reports false if ctx ends first. l.mu is held before and after, and not meanwhile.
func (l *Log) awaitRoom(ctx context.Context) bool {
	if l.room == nil {
		l.room = make(chan struct{})
	}
	room := l.room
	l.mu.Unlock()
	defer l.mu.Lock()
	select {
	case <-room:
		return true
	case <-ctx.Done():
		return false
	}
}

// wakeAppends lets the appends that wait for room look again. l.mu is held.
func (l *Log) wakeAppends() {
	if l.room != nil {
		close(l.room)
		l.room = nil
	}
}

// pending is what the one that lags most has not read, as memory: the backing, or else a reader. l.mu is held.
func (l *Log) pending() int64 {
	if l.backing != nil {
		return l.cost - l.saved.cost
	}
	most := int64(0)
	for _, r := range l.readers {
		if r.pos < l.end {
			most = max(most, l.cost-r.cost)
		}
	}
	return most
}

// slowest is the position of the one that lags most. l.mu is held.
func (l *Log) slowest() int64 {
	if l.backing != nil {
		return l.saved.pos
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
	if l.spill == nil { // with one, nothing is let go before it has been called
		retain = l.keeps()
	}
	if len(l.blocks) > 1 && l.cost-l.blocks[0].cost >= retain {
		l.drop(l.slowest(), retain)
	}
}

// keeps is how much memory keeps for readers still to come. l.mu is held.
func (l *Log) keeps() int64 {
	if l.long {
		return l.shared.each(l.retain)
	}
	return l.retain
}

// share makes shared count the log if it is long, or no more. l.mu is held.
func (l *Log) share(long bool) {
	if l.shared == nil || l.long == long {
		return
	}
	l.long = long
	if long {
		l.shared.long.Add(1)
	} else {
		l.shared.long.Add(-1)
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

// Lag is how many bytes the reader that lags most has not read.
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
	return l.await(ctx, &cursor{pos: size}, 1)
}

// Held is how many bytes of memory the log's data takes.
func (l *Log) Held() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.size()
}
