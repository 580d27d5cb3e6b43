package engine

import (
	"slices"

	"runnel/partials"
)

// collect makes a batch of output that is not stored yet, nil if there is none. k.mu is held.
func (k *keeping) collect() *Batch {
	limit, size := k.log.Limit(), int64(ExtentBytes)
	if limit > 0 {
		size = max(min(size, limit/16), 1) // head and tail consist of whole extents
	}
	b := &Batch{From: k.written.end, after: k.written}
	b.after.tail = slices.Clip(b.after.tail)
	for len(b.Extents) < mostExtents {
		e, ok := k.log.Unsaved(int(size))
		if !ok {
			break
		}
		b.Extents = append(b.Extents, e)
		b.after.grow(e.End(), limit)
	}
	b.To, b.Head, b.more = b.after.end, b.after.head, len(b.Extents) == mostExtents
	k.number(b)
	if len(b.Extents) == 0 && b.Numbers == nil {
		return nil
	}
	b.Cut = b.after.cut(limit)
	return b
}

// number adds the numbers that segments have got.
func (k *keeping) number(b *Batch) {
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
