package partials

import (
	"context"
	"errors"
	"io"
	"math"
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
//   - A reader waits for output (await). Append, Grow and Close wake it (wakeReaders).
//   - The backing's owner waits for Due, which Append calls.
//
// The lock of the log covers its readers' cursors, too. It is the innermost: Pump.mu and Segments.mu are taken before
// it, in this order, and under it nothing waits and nothing is called but Backing.Due.
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
	output   chan struct{} // closed when the log has grown to wanted; nil if no reader waits
	wanted   int64         // the first position that a reader in await waits for

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

// cursor is how far somebody has read a log.
type cursor struct {
	pos  int64
	cost int64 // about what stands before pos counts (costOf)
}

// NewLog makes an empty log.
func NewLog(o *LogOptions) *Log {
	l := &Log{maxPending: DefaultMaxPending, retain: defaultRetain, wanted: math.MaxInt64}
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
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		switch pending := l.end - c.pos; {
		case pending > 0 && (pending >= n || l.closed):
			return nil
		case l.closed:
			return io.EOF
		}
		l.wanted = min(l.wanted, c.pos+min(n, math.MaxInt64-c.pos))
		if !l.wait(&l.output, ctx.Done()) {
			return context.Cause(ctx)
		}
	}
}

// wait waits for wake, and reports false if stop comes first. l.mu is held before and after, and not meanwhile.
func (l *Log) wait(event *chan struct{}, stop <-chan struct{}) bool {
	if *event == nil {
		*event = make(chan struct{})
	}
	happened := *event
	l.mu.Unlock()
	defer l.mu.Lock()
	select {
	case <-happened:
		return true
	case <-stop:
		return false
	}
}

// wake lets those that wait for an event look again. l.mu is held.
func wake(event *chan struct{}) {
	if *event != nil {
		close(*event)
		*event = nil
	}
}

// wakeReaders wakes the readers if one has what it waits for. l.mu is held.
func (l *Log) wakeReaders() {
	if l.closed || l.end >= l.wanted {
		l.wanted = math.MaxInt64
		wake(&l.output)
	}
}

// wakeAppends lets the appends that wait for room look again. l.mu is held.
func (l *Log) wakeAppends() { wake(&l.room) }

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
