package partials

import (
	"context"
	"errors"
	"io"
	"math"
	"slices"
	"sync"
	"time"
)

// errClosed refuses an append to a log whose task has ended.
var errClosed = errors.New("the task's log is closed")

// LogOptions configure a Log. The zero value works, and so does nil.
type LogOptions struct {
	// MaxPending is how many bytes the slowest reader may lag before Append waits or, with a backing, how
	// many that may lack; 0 = DefaultMaxPending.
	MaxPending int
	Retain     int // bytes that memory keeps for later readers, beyond what present ones need; 0 = 8 MiB
	// Memory is shared by logs without a backing: the more of them are long, the less each keeps. nil = not
	// shared.
	Memory *Memory
	// Lost is called when the log's backing has failed (Log.Fail) and nothing more can be appended. It must
	// not block.
	Lost func(reason error)
	// Spill is called once, by an Append that waits for it, before memory releases output that no backing
	// has. It may give the log a backing (Back). If it does not, later readers miss what is released from
	// then on.
	Spill func()
}

// DefaultMaxPending is the default of LogOptions.MaxPending.
const DefaultMaxPending = 1 << 20

// Backing keeps the output of one log beyond what memory holds of it (backing.go).
type Backing interface {
	// Due announces output that the backing does not have; full means that Append may soon have to wait for
	// the backing. Due is called under the log's lock, so it must neither block nor call the log.
	Due(full bool)

	// Load returns consecutive extents, about limit bytes in total, beginning with the one that holds
	// position pos or, if that is gone, the next one. It returns none if nothing from pos on is kept, and an
	// error only if another try may succeed: damaged extents count as gone.
	Load(ctx context.Context, pos int64, limit int) ([]Extent, error)
}

// Log is the append-only output of one task. A position in it is the number of bytes of data before it.
//
// Who waits, and for what:
//
//   - Append waits for room (log.go): without a backing until the slowest reader has read on, with one
//     until the backing has saved more. A reader that reads on or is closed calls wakeAppends, and so does
//     the backing's owner (MarkSaved).
//   - A reader waits for output (watch, then wait). Append, grow and Close wake it (wakeReaders).
//   - The backing's owner waits for Due, which Append calls, and Back and MarkSaved if there is more.
//
// The log's lock also guards its readers' cursors. Gate.mu and Segments.mu are taken before it, in this
// order, and only a lane's own after it. Nothing waits while it is held, and nothing is called but
// Backing.Due.
//
// NewLog makes one for a task, Stored one of the output that a state keeps.
type Log struct {
	maxPending int64
	lost       func(error)

	mu sync.Mutex
	inMemory
	retain   int64   // LogOptions.Retain; less with a backing
	shared   *Memory // LogOptions.Memory
	long     bool    // shared counts it as long
	closed   bool
	followed bool  // another process writes the log (backing.go)
	viewed   int64 // how far readers have read that are none of readers
	failed   error // the reason why the backing cannot keep it

	// The waiters.
	readers  []*cursor     // those that Append waits for
	expected *cursor       // one of them: stands in for the first reader, which is still to come (Expect)
	room     chan struct{} // closed when a reader or the backing has moved on; nil if no Append waits
	waiters  []*waiter     // readers that wait for output

	// The backing (backing.go).
	backing   Backing // nil if there is none
	saving    cursor  // the end of the last extent that Unsaved returned
	saved     cursor  // the end of what the backing has
	announced urgency // the last urgency passed to Due since Unsaved found nothing
	limit     int64   // see SetLimit
	spill     func()  // LogOptions.Spill; nil once it has been called
	spilling  bool    // spill has been called and has not returned
}

// urgency is how urgent a call of Due was.
type urgency uint8

const (
	nothingDue   urgency = iota
	somethingDue         // there is output to save
	muchDue              // there is so much of it that Append may soon wait
)

// waiter is a reader that waits for output.
type waiter struct {
	// woken gets nil when the log has grown to at, or is closed and has output after pos; io.EOF when it is
	// closed and has none. Capacity 1.
	woken   chan error
	pos, at int64
}

// cursor is how far a log has been read.
type cursor struct {
	pos  int64
	cost int64 // about the cost of the data before pos (costOf)
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
	l.lost = o.Lost
	l.spill = o.Spill
	l.shared = o.Memory
	return l
}

// await returns nil when there are at least n bytes after pos, or fewer and the log is closed; io.EOF when
// there is nothing after pos and the log is closed; or the cause of ctx. If there already is enough to read,
// it returns nil even when ctx has ended.
func (l *Log) await(ctx context.Context, pos, n int64) error {
	w := l.newWaiter(pos, n)
	defer l.forget(w)
	return l.wait(ctx, w, nil)
}

// newWaiter makes a waiter for n bytes after pos.
func (l *Log) newWaiter(pos, n int64) *waiter {
	w := &waiter{woken: make(chan error, 1)}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watch(w, pos, n)
	return w
}

// watch lets w wait for n bytes after pos, again if it has waited before. l.mu is held.
func (l *Log) watch(w *waiter, pos, n int64) {
	w.pos, w.at = pos, pos+min(n, math.MaxInt64-pos)
	l.waiters = append(l.waiters, w)
	l.wakeReaders()
}

// wait waits for what w watches, or the end of ctx. Once late receives, any output is enough.
func (l *Log) wait(ctx context.Context, w *waiter, late <-chan time.Time) error {
	select {
	case err := <-w.woken:
		return err
	default:
	}
	for {
		select {
		case err := <-w.woken:
			return err
		case <-late:
			l.mu.Lock()
			w.at = w.pos + 1
			l.wakeReaders()
			l.mu.Unlock()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// wakeReaders wakes the readers whose condition is met. l.mu is held.
func (l *Log) wakeReaders() {
	l.waiters = slices.DeleteFunc(l.waiters, func(w *waiter) bool {
		switch {
		case l.end >= w.at, l.closed && l.end > w.pos:
			w.woken <- nil
		case l.closed:
			w.woken <- io.EOF
		default:
			return false
		}
		return true
	})
}

// forget removes a reader that no longer waits, if it is still there.
func (l *Log) forget(w *waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.waiters, w); i >= 0 {
		l.waiters = slices.Delete(l.waiters, i, i+1)
	}
}

// awaitRoom waits for wakeAppends, and reports false if ctx ends first. l.mu is held before and after, but
// not while it waits.
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

// wakeAppends lets waiting appends check again. l.mu is held.
func (l *Log) wakeAppends() {
	if l.room != nil {
		close(l.room)
		l.room = nil
	}
}

// trim releases blocks that neither the backing or, without one, a reader needs, and that need not be kept
// for later readers. l.mu is held.
func (l *Log) trim() {
	retain := l.retain
	if l.spill == nil { // otherwise nothing is released until Spill is called
		retain = l.retention()
	}
	if len(l.blocks) < 2 || l.cost-l.blocks[0].cost < retain {
		return
	}
	needed := l.saved.pos
	if l.backing == nil {
		needed = l.end
		for _, r := range l.readers {
			needed = min(needed, r.pos)
		}
	}
	n := 0
	for n < len(l.blocks)-1 && l.blocks[n].end() <= needed && l.cost-l.blocks[n].cost >= retain {
		n++
	}
	if n > 0 {
		l.gone = l.blocks[n-1].cost
	}
	clear(l.blocks[:n])
	l.blocks = l.blocks[n:]
}

// retention is how much memory keeps for later readers. l.mu is held.
func (l *Log) retention() int64 {
	if l.long {
		return l.shared.share(l.retain)
	}
	return l.retain
}

// share makes shared count the log as long, or no longer. l.mu is held.
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

// Close ends the log: readers get what is there, then io.EOF.
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

// Size returns the position of the log's end: how many bytes were appended.
func (l *Log) Size() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.end
}

// Lag returns how many bytes the slowest reader has not read.
func (l *Log) Lag() (lag int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.readers {
		lag = max(lag, l.end-r.pos)
	}
	return lag
}

// Grown returns nil when the log is longer than size, io.EOF if it never will be, or the cause of ctx.
func (l *Log) Grown(ctx context.Context, size int64) error {
	return l.await(ctx, size, 1)
}

// Held returns how many bytes of memory the log takes.
func (l *Log) Held() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.size()
}

// Append adds the chunks of one write, copying their data. It waits while the slowest reader, or the backing
// if there is one, lags too far, and fails with the cause of ctx if that ends first. The chunks stay
// together, and calls stay in order.
func (l *Log) Append(ctx context.Context, chunks ...Chunk) error {
	size := int64(0)
	for i := range chunks {
		size += costOf(len(chunks[i].Data))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for admitted := false; !admitted; {
		switch {
		case l.closed || l.followed:
			return errClosed
		case l.failed != nil:
			return l.failed
		case l.spill != nil && l.backing == nil && l.cost+size >= l.retention():
			spill := l.spill
			l.spill, l.spilling = nil, true
			l.mu.Unlock()
			spill()
			l.mu.Lock()
			l.spilling = false
			l.wakeAppends()
		case l.hasRoom(size):
			admitted = true
		case !l.awaitRoom(ctx):
			return context.Cause(ctx)
		}
	}
	l.write(chunks)
	l.share(!l.closed && l.backing == nil && l.cost >= backedRetain)
	l.trim()
	l.announceDue()
	l.wakeReaders()
	return nil
}

// hasRoom reports whether size more bytes may be appended: whether they and what the slowest has not read
// cost at most maxPending, or everything has been read. The slowest is the backing if there is one, otherwise
// a reader. l.mu is held.
func (l *Log) hasRoom(size int64) bool {
	pending := int64(0)
	switch {
	case l.spilling:
		return false
	case l.backing == nil:
		for _, r := range l.readers {
			if r.pos < l.end {
				pending = max(pending, l.cost-r.cost)
			}
		}
	default:
		pending = l.cost - l.saved.cost
		// A log with a limit loses its middle: the backing would discard what a reader has not read. It keeps
		// more of the end than this.
		far := max(l.limit/4, dueBytes)
		if l.limit > 0 && slices.ContainsFunc(l.readers, func(r *cursor) bool { return l.end-r.pos > far }) {
			return false // however slow that reader is
		}
	}
	return pending == 0 || pending+size <= l.maxPending
}

// announceDue calls Due if there is output to save: once for each urgency until Unsaved has returned
// everything. l.mu is held.
func (l *Log) announceDue() {
	if l.backing == nil || l.failed != nil || l.saved.pos == l.end {
		return
	}
	now := somethingDue
	if l.cost-l.saved.cost >= dueBytes {
		now = muchDue
	}
	if now > l.announced {
		l.announced = now
		l.backing.Due(now == muchDue)
	}
}
