package engine

import (
	"slices"

	"runnel/partials"
)

const (
	// StretchBytes is how long a stretch of output is that is stored at most.
	StretchBytes  = 64 << 10
	someStretches = 8      // are stored in one go
	mostCut       = 10_000 // stretches are let go of in one go: short ones are many, and a server may do nothing else meanwhile
)

// Batch is some output of a task that is stored in one go. It goes from one position to another.
type Batch struct {
	From, To  int64
	Stretches []partials.Extent
	Head      int64 // stretches from this position on are the tail of a long log, of which some are cut out later; 0 = there is none
	// Cut are the stretches of the tail that are let go of, by where they end: all that stands between Head and the last of these.
	Cut []int64

	Numbers []byte // where segments end, as partials.EncodeEnds writes it; nil if there are none
	First   int    // the number of the first of them
	Last    int    // and of the last

	after written
	more  bool // there may be more
}

// Tail reports whether a stretch is of the tail of a long log.
func (b *Batch) Tail(e *partials.Extent) bool { return b.Head > 0 && e.Start >= b.Head }

// written is how much of a task's output is stored.
type written struct {
	end      int64
	numbered int     // how many segments have stored numbers
	last     int64   // where the last of them ends
	head     int64   // where the head of a long log ends, 0 if it is not long
	middle   int64   // where what is kept after it begins
	tail     []int64 // where the stretches after that end
}

// kept is how many bytes are stored.
func (w *written) kept() int64 { return w.end - (w.middle - w.head) }

// collect makes a batch of what is not stored, nil if there is nothing. k.mu is held.
func (k *Keeping) collect() *Batch {
	limit, size := k.log.Limit(), int64(StretchBytes)
	if limit > 0 {
		size = max(min(size, limit/16), 1) // head and tail are kept in whole stretches
	}
	b := &Batch{From: k.written.end, after: k.written}
	b.after.tail = slices.Clip(b.after.tail)
	for len(b.Stretches) < someStretches {
		e, ok := k.log.Unsaved(int(size))
		if !ok {
			break
		}
		b.Stretches = append(b.Stretches, e)
		b.after.grow(e.End(), limit)
	}
	b.To, b.Head, b.more = b.after.end, b.after.head, len(b.Stretches) == someStretches
	k.number(b)
	if len(b.Stretches) == 0 && b.Numbers == nil {
		return nil
	}
	b.Cut = b.after.cut(limit)
	return b
}

// grow notes a stretch up to a position.
func (w *written) grow(end, limit int64) {
	w.end = end
	switch {
	case w.head > 0:
		w.tail = append(w.tail, end)
	case limit > 0 && end >= limit/8*3:
		w.head, w.middle = end, end
	}
}

// number adds the numbers that were given to segments.
func (k *Keeping) number(b *Batch) {
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

// cut lets go of the middle of a log that is longer than its limit, down to three quarters of it: not for each stretch anew. It returns the
// stretches, by where they end.
func (w *written) cut(limit int64) (gone []int64) {
	if limit <= 0 || w.kept() <= limit {
		return nil
	}
	for to := w.end - limit/8*3; len(w.tail) > 0 && w.tail[0] <= to && len(gone) < mostCut; w.tail = w.tail[1:] {
		gone = append(gone, w.tail[0])
		w.middle = w.tail[0]
	}
	return gone
}
