package partials

import "runnel/rpc/mcp"

const itemOverhead = 64 // bytes of an item around its text

// fill makes a batch of at most limit bytes from blocks, starting at offset at in chunk n of the first one:
// whole writes where they fit. perChunk is how much each chunk counts in addition to its data. A batch from a
// single block is not copied; others are built in buffer.
func fill(blocks []*block, n, at, limit, perChunk int, buffer *Batch) (b Batch) {
	f := filling{limit: limit, perChunk: perChunk}
	for i, block := range blocks {
		records := block.records[n:]
		part := Batch{data: block.data, begin: at, records: records[:f.fit(records, at)]}
		part.Start = block.start + int64(at)
		part.End = part.Start + int64(part.stop()-at)
		switch i {
		case 0:
			b = part
		case 1:
			buffer.copyFrom(b)
			fallthrough
		default:
			buffer.add(part)
			b = *buffer
		}
		if f.full {
			break
		}
		n, at = 0, 0
	}
	if text := b.bytes(); len(b.records) == 1 && b.records[0].tooLong(len(text), limit) {
		b = b.cut(b.Start + int64(cutText(text, limit)))
	} else if f.whole > 0 && f.whole < f.chunks { // otherwise even one write does not fit
		b = b.split(f.whole)
	}
	return b
}

// filling measures what fits into a batch.
type filling struct {
	limit, perChunk int

	chunks int
	whole  int    // how many of them form whole writes
	size   int    // bytes of their data, plus about what surrounds it in the notification
	weight int    // at worst, as JSON
	last   record // the last chunk
	full   bool
}

// fit returns how many of the records fit; at is where the first one begins.
func (f *filling) fit(records []record, at int) int {
	for i := range records {
		r := &records[i]
		n := int(r.end) - at
		size, weight := n+f.perChunk, n+itemOverhead
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
		f.chunks++
		f.size += size
		f.weight += weight
		f.last = *r
		at = int(r.end)
		if !r.more {
			f.whole = f.chunks
		}
		if long { // fill cuts it
			f.full = true
			return i + 1
		}
	}
	return len(records)
}
