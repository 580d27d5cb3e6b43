package partials

import (
	"unicode/utf8"

	"runnel/rpc/mcp"
)

// next returns up to limit bytes of what comes next, whole writes where they fit, and moves on past it. It returns false where memory,
// or what was loaded, has nothing at r.pos. log.mu is held.
func (r *Reader) next(limit int) (Batch, bool) {
	blocks, n, at := r.place()
	if blocks == nil {
		pos := min(r.pos, r.log.end)
		return Batch{Start: pos, End: pos}, false
	}
	return r.take(blocks, n, at, limit), true
}

// place finds r.pos, or what comes after it if memory has let that go: the block and those that follow, which record of the block, and
// where in its data. Where there is nothing it returns no blocks. log.mu is held.
func (r *Reader) place() (from []*block, n, at int) {
	for r.pos < r.log.end {
		blocks := r.source()
		if len(blocks) == 0 {
			break
		}
		if r.pos < blocks[0].start {
			r.pos, r.cost = blocks[0].start, r.log.gone
		}
		i, n, begin := find(blocks, r.pos)
		b := blocks[i]
		at, end := int(r.pos-b.start), int(b.records[n].end)
		if b.records[n].kind == Item {
			at = begin // a position inside an item is its beginning
		}
		for at < end && !utf8.RuneStart(b.data[at]) {
			at++ // a position inside a character is its end
		}
		if at < end {
			return blocks[i:], n, at
		}
		r.pos = b.start + int64(end)
	}
	return nil, 0, 0
}

// take reads blocks from a record of the first one on, and there from at on. What lies in one block is not copied. log.mu is held.
func (r *Reader) take(blocks []*block, n, at, limit int) (b Batch) {
	f := filling{limit: limit, overhead: r.overhead}
	for i, block := range blocks {
		records := block.records[n:]
		part := Batch{data: block.data, begin: at, records: records[:f.fit(records, at)]}
		part.Start = block.start + int64(at)
		part.End = part.Start + int64(part.stop()-at)
		if i == 0 {
			b = part
		} else {
			if i == 1 {
				r.buffer.hold(b)
			}
			r.buffer.add(part)
			b = r.buffer
		}
		if f.full {
			break
		}
		n, at = 0, 0
	}
	if text := b.bytes(); len(b.records) == 1 && b.records[0].tooLong(len(text), limit) {
		b = b.cut(b.Start + int64(cutText(text, limit)))
	} else if f.whole > 0 && f.whole < f.chunks { // else half a write is all that there is room for
		b = b.split(f.whole)
	}
	r.pos = b.End
	r.cost += b.cost()
	return b
}

// filling measures what fits into a batch.
type filling struct {
	limit, overhead int

	chunks int
	whole  int    // how many of them are whole writes
	size   int    // of their data, and about what goes around it in the notification
	weight int    // as JSON at worst
	last   record // the last chunk
	full   bool
}

// fit returns how many of the records fit, the first of which begins at at.
func (f *filling) fit(records []record, at int) int {
	for i := range records {
		r := &records[i]
		n := int(r.end) - at
		size, weight := n+f.overhead, n+itemOverhead
		if !r.continues(&f.last) || f.chunks == 0 {
			size += itemOverhead
		}
		if r.kind == Text {
			weight += 5 * n // each byte may be \u0000
		}
		long := r.tooLong(n, f.limit)
		if f.chunks > 0 && (f.weight+weight > mcp.MaxContent || (f.whole > 0 || long) && f.size+size > f.limit) {
			f.full = true
			return i
		}
		f.chunks, f.size, f.weight, f.last = f.chunks+1, f.size+size, f.weight+weight, *r
		at = int(r.end)
		if !r.more {
			f.whole = f.chunks
		}
		if long { // a part of it goes
			f.full = true
			return i + 1
		}
	}
	return len(records)
}

// tooLong reports whether a chunk of n bytes is a text of which only a part goes into limit.
func (r *record) tooLong(n, limit int) bool { return r.kind == Text && !r.whole && n > limit }

// continues reports whether a chunk goes on with the text of the one before it: both are one content item.
func (r *record) continues(before *record) bool {
	return r.kind == Text && before.kind == Text && r.stream == before.stream
}
