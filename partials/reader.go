package partials

import (
	"context"
	"math"
	"slices"
	"time"
)

// Reader reads a log at its own pace. Only one goroutine may use it at a time.
// Log.NewReader and Log.ReaderAt make one.
type Reader struct {
	log *Log
	// perChunk is what each chunk adds to the size of a batch, beyond its data: it may become a line of its
	// own.
	perChunk int

	cursor // guarded by log.mu

	// The backing's output at pos, if memory does not have it.
	loaded []*block
	gap    int64 // if beyond pos: the output up to here is no longer kept

	buffer Batch // memory for batches of more than one block
}

// NewReader returns a reader that starts at position pos. Without a backing, Append waits for it. The caller
// must close it. Use it for a delivery that must miss nothing; for a viewer use ReaderAt.
func (l *Log) NewReader(pos int64) *Reader {
	r := &Reader{log: l, cursor: cursor{pos: pos}}
	l.mu.Lock()
	defer l.mu.Unlock()
	if pos <= l.from() {
		r.cost = l.gone // Append does not wait for output that memory has released
	} else {
		r.cost = l.cost - (l.end - pos) // at most: small chunks after pos cost more than their size
	}
	l.readers = append(l.readers, &r.cursor)
	l.release(l.expected)
	return r
}

// Expect makes Append wait for a reader that is about to come, as for one that has read nothing yet, but not
// longer than patience. Use it where the client opens its stream only after it has got the handle.
func (l *Log) Expect(patience time.Duration) {
	r := l.NewReader(0)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expected = &r.cursor
	time.AfterFunc(patience, r.Close)
}

// Next returns up to limit bytes of what comes next, whole writes where they fit, and moves past it. It
// returns false if there is nothing at the moment. The batch is valid until the next call.
// Call it after Wait.
func (r *Reader) Next(limit int) (Batch, bool) {
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	return r.advance(limit)
}

// advance is Next. log.mu is held.
func (r *Reader) advance(limit int) (Batch, bool) {
	if r.log.backing == nil {
		r.gap = r.log.from() // memory has released what was before
	}
	if r.gap > r.pos {
		return r.skipGap(), true
	}
	source := r.source()
	blocks, n, at := place(source, r.pos)
	if blocks == nil {
		if len(source) > 0 { // r.pos may be inside the last character
			r.pos = max(r.pos, source[len(source)-1].end())
		}
		pos := min(r.pos, r.log.end)
		return Batch{Start: pos, End: pos}, false
	}
	b := fill(blocks, n, at, limit, r.perChunk, &r.buffer)
	r.pos, r.cost = b.End, r.cost+b.cost()
	r.log.wakeAppends()
	r.log.trim()
	return b, true
}

// Wait returns nil when there are at least n bytes to read, or fewer and the log is closed, and has then
// loaded what memory does not hold; io.EOF when everything is read and the log is closed; or an error of ctx
// or the backing. If there already is enough to read, it does not matter whether ctx has ended.
func (r *Reader) Wait(ctx context.Context, n int64) error {
	if err := r.log.await(ctx, r.pos, n); err != nil {
		return err
	}
	return r.load(ctx)
}

// Pos returns the position after what was read.
func (r *Reader) Pos() int64 {
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	return r.pos
}

// Close ends the reader: Append no longer waits for it. It may be called again.
func (r *Reader) Close() {
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	r.log.release(&r.cursor)
}

// release removes a reader from those that Append waits for. l.mu is held.
func (l *Log) release(c *cursor) {
	if i := slices.Index(l.readers, c); i >= 0 {
		l.readers = slices.Delete(l.readers, i, i+1)
		l.wakeAppends()
		l.trim()
	}
}

// needsLoad reports whether only the backing has what r reads next. log.mu is held.
func (r *Reader) needsLoad() bool {
	return r.log.backing != nil && r.pos < r.log.end && r.gap <= r.pos && r.source() == nil
}

// load reads what r needs next from the backing, if memory does not have it. It must not be called under a
// lock.
func (r *Reader) load(ctx context.Context) error {
	l := r.log
	l.mu.Lock()
	if !r.needsLoad() {
		l.mu.Unlock()
		return nil
	}
	backing := l.backing
	pos := r.pos
	end := l.from()
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

// skipUnloaded gives up the output that only the backing has: Next reports it as lost.
func (r *Reader) skipUnloaded() {
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	r.gap = r.log.from()
}

// source returns the blocks that hold what r reads next: those that it has loaded, or those in memory; nil if
// it has to load. log.mu is held.
func (r *Reader) source() []*block {
	if n := len(r.loaded); n > 0 {
		if r.pos >= r.loaded[0].start && r.pos < r.loaded[n-1].end() {
			return r.loaded
		}
		r.loaded = nil
	}
	if r.log.backing != nil && r.pos < r.log.from() {
		return nil
	}
	return r.log.blocks
}

// skipGap moves past output that is not kept and returns the batch that replaces it. log.mu is held.
func (r *Reader) skipGap() Batch {
	b := lostBatch(r.pos, r.gap)
	r.cost += r.gap - r.pos
	if r.pos = r.gap; r.pos == r.log.from() {
		r.cost = r.log.gone
	}
	return b
}

// ReaderAt returns a reader that starts at position pos, for use with Read. Append does not wait for it, and
// it need not be closed.
func (l *Log) ReaderAt(pos int64) *Reader { return &Reader{log: l, cursor: cursor{pos: max(pos, 0)}} }

// Read returns up to limit bytes of whole chunks, at least one chunk if there is any, and moves past them. It
// never waits for output, only for the backing. It skips output that is no longer kept: Batch.Start says
// where the batch begins. The batch is valid until the next call.
func (r *Reader) Read(ctx context.Context, limit int) (Batch, error) {
	for {
		if err := r.load(ctx); err != nil {
			return Batch{}, err
		}
		b, ok := r.Next(limit)
		r.log.view(r.pos)
		if ok && !b.Lost || r.pos >= r.log.Size() {
			return b, nil
		}
		// Otherwise memory has released it since load.
	}
}

// ReadAt is Read at position pos; it also returns the position to continue from.
func (l *Log) ReadAt(ctx context.Context, pos int64, limit int) (Batch, int64, error) {
	r := l.ReaderAt(pos)
	b, err := r.Read(ctx, limit)
	return b, r.pos, err
}

// Tail returns the last chunks that are in memory, about n bytes of them.
func (l *Log) Tail(n int) Batch {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tail(int64(n))
}

// tail is Tail. It reads until the log's end: an item of which n bytes hold only the end is a batch of its
// own. l.mu is held.
func (l *Log) tail(n int64) (b Batch) {
	l.viewed = l.end
	var buffer Batch
	for pos := max(l.end-n, l.from()); ; pos = b.End {
		blocks, first, at := place(l.blocks, pos)
		if blocks == nil {
			return b
		}
		b = fill(blocks, first, at, math.MaxInt, 0, &buffer)
	}
}

// between returns the output from position begin to end, or a note in its place if a part of it is no longer
// kept. An error says that it could not be read, and the note is wrong. Calls that follow each other through
// the log share what is loaded.
func (r *Reader) between(begin, end int64) (Batch, error) {
	all := Batch{Start: begin, End: begin}
	for r.pos = begin; all.End < end; {
		b, err := r.Read(context.Background(), int(min(end-all.End, math.MaxInt)))
		// A stored position may be damaged.
		if err != nil || b.Lost || b.Start > all.End || len(b.records) == 0 {
			return lostBatch(begin, end), err
		}
		all.add(b.cut(end))
	}
	return all, nil
}

// lostTo is the first position that can still be read: memory has released the output before it, and nothing
// backs it.
func (l *Log) lostTo() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.backing != nil || len(l.blocks) == 0 {
		return 0
	}
	return l.blocks[0].start
}

// endsAt reports whether the log is closed and has nothing after position pos.
func (l *Log) endsAt(pos int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed && l.end <= pos
}
