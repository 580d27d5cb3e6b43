package engine

import (
	"slices"

	"runnel/partials"
)

const (
	mostExtents = 8 // stored at once
	// This many extents are dropped in one request: there may be many short ones, and a server may do nothing
	// else while it drops them.
	mostCut = 10_000
)

// Batch is output of a task that is stored at once, from one position to another.
type Batch struct {
	From, To int64
	Extents  []partials.Extent
	// Extents from this position on are the tail of a long log, some of which is cut out later; 0 = no tail.
	Head int64
	// Cut are the dropped extents of the tail, by where they end: everything between Head and the last of
	// them.
	Cut []int64

	Numbers []byte // where segments end, from partials.EncodeEnds; nil = none
	First   int    // the number of the first of those segments
	Last    int    // and of the last

	after written
	more  bool // there may be more
}

// Tail reports whether an extent belongs to the tail of a long log.
func (b *Batch) Tail(e *partials.Extent) bool { return b.Head > 0 && e.Start >= b.Head }

// written is how much of a task's output is stored.
type written struct {
	end      int64
	numbered int     // how many segments have stored numbers
	last     int64   // where the last of them ends
	head     int64   // where the head of a long log ends, 0 if it is not long
	middle   int64   // where the part after the cut begins
	tail     []int64 // where the extents after that end
}

// kept returns how many bytes are stored.
func (w *written) kept() int64 { return w.end - (w.middle - w.head) }

// grow notes a stored extent up to a position.
func (w *written) grow(end, limit int64) {
	w.end = end
	switch {
	case w.head > 0:
		w.tail = append(w.tail, end)
	case limit > 0 && end >= limit/8*3:
		w.head, w.middle = end, end
	}
}

// cut drops the middle of a log that is longer than its limit, down to three quarters of the limit, so that
// not every extent needs a cut. It returns the dropped extents, by where they end.
func (w *written) cut(limit int64) (gone []int64) {
	if limit <= 0 || w.kept() <= limit {
		return nil
	}
	for to := w.end - limit/8*3; len(w.tail) > 0 && w.tail[0] <= to &&
		len(gone) < mostCut; w.tail = w.tail[1:] {
		gone = append(gone, w.tail[0])
		w.middle = w.tail[0]
	}
	return gone
}

// collect makes a batch of output that is not stored yet, nil if there is none. k.mu is held.
func (k *backing) collect() *Batch {
	limit, size := k.log.Limit(), k.log.ExtentSize()
	b := &Batch{From: k.written.end, after: k.written}
	b.after.tail = slices.Clip(b.after.tail)
	for len(b.Extents) < mostExtents {
		e, ok := k.log.Unsaved(size)
		if !ok {
			break
		}
		b.Extents = append(b.Extents, e)
		b.after.grow(e.End(), limit)
	}
	b.To = b.after.end
	b.Head = b.after.head
	b.more = len(b.Extents) == mostExtents
	k.number(b)
	if len(b.Extents) == 0 && b.Numbers == nil {
		return nil
	}
	b.Cut = b.after.cut(limit)
	return b
}

// number adds the numbers that segments have got.
func (k *backing) number(b *Batch) {
	w := &b.after
	if k.numbers {
		k.segments.Number(w.end)
	}
	if given := k.segments.Given(w.numbered, w.end); len(given) > 0 {
		b.First, b.Numbers = w.numbered+1, partials.EncodeEnds(w.last, given)
		w.numbered, w.last = w.numbered+len(given), given[len(given)-1]
		b.Last = w.numbered
	}
}
