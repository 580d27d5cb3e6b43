package partials

import (
	"context"
	"math"
)

// ReaderAt returns a reader from position pos on, for which Append does not wait and which is read with Read. It need not be closed.
func (l *Log) ReaderAt(pos int64) *Reader { return &Reader{log: l, cursor: cursor{pos: max(pos, 0)}} }

// Read returns up to limit bytes of whole chunks, at least one chunk if there is any, and moves on past them. It waits for no output,
// only for the backing. What is no longer kept is passed over: Batch.Start says where the batch begins. It is valid until the next call.
func (r *Reader) Read(ctx context.Context, limit int) (Batch, error) {
	for {
		if err := r.load(ctx); err != nil {
			return Batch{}, err
		}
		b, ok := r.Next(limit)
		if ok && !b.Lost || r.pos >= r.log.Size() {
			return b, nil
		}
		// Else memory let it go since load looked.
	}
}

// ReadAt is Read from position pos on; it returns the position to go on from, too.
func (l *Log) ReadAt(ctx context.Context, pos int64, limit int) (Batch, int64, error) {
	r := l.ReaderAt(pos)
	b, err := r.Read(ctx, limit)
	return b, r.pos, err
}

// Tail returns the last chunks that are in memory, about n bytes of them.
func (l *Log) Tail(n int) Batch {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := Reader{log: l, tail: true}
	b, _ := r.last(int64(n))
	return b
}

// between returns what stands from position begin to end, and reports whether all of it is kept.
func (l *Log) between(begin, end int64) (all Batch, ok bool) {
	all = Batch{Start: begin, End: begin}
	for r := l.ReaderAt(begin); all.End < end; {
		b, err := r.Read(context.Background(), int(min(end-all.End, math.MaxInt)))
		if err != nil || b.Lost || b.Start > all.End || len(b.records) == 0 { // a stored position may be damaged
			return all, false
		}
		all.add(b.cut(end))
	}
	return all, true
}

// lostTo is where the log begins that can be read: before it, memory has let go what no backing has.
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
