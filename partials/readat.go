package partials

import (
	"context"
	"math"
)

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
	b, _ := l.tail(int64(n))
	return b
}

// tail is Tail; it also returns the position of the log's end. It reads until there: an item of which n bytes
// hold only the end is a batch of its own.
func (l *Log) tail(n int64) (b Batch, end int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.viewed = l.end
	r := Reader{log: l, cursor: cursor{pos: max(l.end-n, l.from())}}
	for next, ok := r.next(math.MaxInt); ok; next, ok = r.next(math.MaxInt) {
		b = next
	}
	return b, l.end
}

// between returns the output from position begin to end, or a note in its place if a part of it is no longer
// kept. An error says that it could not be read, and the note is wrong. Calls that follow each other through
// the log share what is loaded.
func (r *Reader) between(begin, end int64) (Batch, error) {
	all := Batch{Start: begin, End: begin}
	for r.pos = begin; all.End < end; {
		b, err := r.Read(context.Background(), int(min(end-all.End, math.MaxInt)))
		if err != nil || b.Lost || b.Start > all.End || len(b.records) == 0 { // a stored position may be damaged
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
