package partials

import (
	"context"
	"math"
	"slices"
	"time"
)

// Reader reads a log at its own pace. It is used by one goroutine at a time.
type Reader struct {
	log  *Log
	tail bool // see NewTail
	each int  // bytes that each chunk counts in a batch beside its data, where each makes a line

	cursor // guarded by log.mu

	// The backing's output at pos, if memory does not have it.
	loaded []*block
	gap    int64 // beyond pos: what stands up to here is no longer kept

	buffer Batch // memory for batches of more than one block
}

// NewReader returns a reader that starts at position pos. Append waits for it if the log has no backing. The caller must close it.
func (l *Log) NewReader(pos int64) *Reader {
	r := &Reader{log: l, cursor: cursor{pos: pos}}
	l.mu.Lock()
	defer l.mu.Unlock()
	if pos <= l.from() {
		r.cost = l.gone // Append does not wait for what is not in memory
	} else {
		r.cost = l.cost - (l.end - pos) // at most: small chunks after pos count more
	}
	l.readers = append(l.readers, &r.cursor)
	l.leave(l.expected)
	return r
}

// Expect makes Append wait for a reader that is about to come as for one that is there and has read nothing, for patience at most.
func (l *Log) Expect(patience time.Duration) {
	r := l.NewReader(0)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expected = &r.cursor
	time.AfterFunc(patience, r.Close)
}

// NewTail returns a reader that shows only the last of what there is (about 4 KiB) each time it reads,
// and for which Append does not wait.
func (l *Log) NewTail() *Reader {
	return &Reader{log: l, tail: true}
}

// tailBytes is what a tail reader looks at: enough for a last line.
const tailBytes = 4 << 10

// Next returns up to limit bytes of what comes next, whole writes where they fit, and moves on past it.
// It returns false if there is nothing now. The batch is valid until the next call.
func (r *Reader) Next(limit int) (Batch, bool) {
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	if r.tail {
		if r.pos == r.log.end {
			return Batch{}, false
		}
		// From before what is new: its first line may have begun there.
		return r.last(tailBytes)
	}
	if r.log.backing == nil {
		r.gap = r.log.from() // memory has let go what was before
	}
	if r.gap > r.pos {
		return r.passGap(), true
	}
	b, ok := r.next(limit)
	if ok {
		r.log.wakeAppends()
		r.log.trim()
	}
	return b, ok
}

// next is Next within what is in memory or loaded: it returns false where that has nothing at r.pos. log.mu is held.
func (r *Reader) next(limit int) (Batch, bool) {
	source := r.source()
	blocks, n, at := place(source, r.pos)
	if blocks == nil {
		if len(source) > 0 { // r.pos may be inside the last character
			r.pos = max(r.pos, source[len(source)-1].end())
		}
		pos := min(r.pos, r.log.end)
		return Batch{Start: pos, End: pos}, false
	}
	b := fill(blocks, n, at, limit, r.each, &r.buffer)
	r.pos, r.cost = b.End, r.cost+b.cost()
	return b, true
}

// last reads what stands at the end of the log, about n bytes: the last batch of them, which is mostly the only one (an item that
// reaches into them may be one of its own). log.mu is held.
func (r *Reader) last(n int64) (b Batch, ok bool) {
	r.pos = max(r.log.end-n, 0)
	for b, ok = r.next(math.MaxInt); ok && r.pos < r.log.end; {
		b, ok = r.next(math.MaxInt)
	}
	if !ok {
		r.pos = r.log.end // memory may hold nothing of a followed log
	}
	return b, ok
}

// Wait returns when at least n bytes are there to read or the log is closed, having fetched from the backing what memory does not
// hold; io.EOF when it is closed and all is read; or ctx's error. What is there already is returned even when ctx is done.
func (r *Reader) Wait(ctx context.Context, n int64) error {
	if err := r.log.await(ctx, &r.cursor, n); err != nil {
		return err
	}
	return r.load(ctx)
}

// Pos is the position after what was read.
func (r *Reader) Pos() int64 {
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	return r.pos
}

// Close ends the reader: Append does not wait for it any more. It may be called again.
func (r *Reader) Close() {
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	r.log.leave(&r.cursor)
}

// leave ends the wait for a reader, if there is one. l.mu is held.
func (l *Log) leave(c *cursor) {
	if i := slices.Index(l.readers, c); i >= 0 {
		l.readers = slices.Delete(l.readers, i, i+1)
		l.wakeAppends()
		l.trim()
	}
}

// lacks reports whether only the backing has what r reads next. log.mu is held.
func (r *Reader) lacks() bool {
	return !r.tail && r.log.backing != nil && r.pos < r.log.end && r.gap <= r.pos && r.source() == nil
}

// ended reports whether the log is closed and all of it is read. What is loaded of a followed log may go beyond its end.
func (r *Reader) ended() bool {
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	return r.log.closed && r.pos >= r.log.end
}

// load fetches from the backing what r reads next, if memory does not have it. It must not be called under a lock.
func (r *Reader) load(ctx context.Context) error {
	l := r.log
	l.mu.Lock()
	if !r.lacks() {
		l.mu.Unlock()
		return nil
	}
	backing, pos, end := l.backing, r.pos, l.from()
	l.mu.Unlock()

	extents, err := backing.Load(ctx, pos, loadBytes)
	if err != nil {
		return err
	}
	loaded, err := decode(extents)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	r.loaded, r.gap = loaded, 0
	switch {
	case len(loaded) == 0:
		r.gap = end // nothing up to what memory holds
	case loaded[0].start > pos:
		r.gap = loaded[0].start
	}
	return nil
}

// leaveOut passes over what only the backing has.
func (r *Reader) leaveOut() {
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	r.gap = r.log.from()
}

// source is where r reads on: what it has loaded or what is in memory; nil if that must be loaded. log.mu is held.
func (r *Reader) source() []*block {
	if n := len(r.loaded); n > 0 {
		if r.pos >= r.loaded[0].start && r.pos < r.loaded[n-1].end() {
			return r.loaded
		}
		r.loaded = nil
	}
	if r.log.backing != nil && !r.tail && r.pos < r.log.from() {
		return nil
	}
	return r.log.blocks
}

// passGap is the batch that stands for output that is not kept. log.mu is held.
func (r *Reader) passGap() Batch {
	b := lostBatch(r.pos, r.gap)
	r.cost += r.gap - r.pos
	if r.pos = r.gap; r.pos == r.log.from() {
		r.cost = r.log.gone
	}
	return b
}
