package partials

import (
	"unicode/utf8"
)

// next reads at r.pos. log.mu is held.
func (r *Reader) next(limit int) (Batch, bool) {
	l := r.log
	if r.pos >= l.end {
		return Batch{Start: l.end, End: l.end}, false
	}
	blocks := r.source()
	if len(blocks) == 0 {
		return Batch{Start: r.pos, End: r.pos}, false
	}
	if r.pos < blocks[0].start { // memory has let it go
		r.pos, r.cost = blocks[0].start, l.gone
	}
	i, n, begin := find(blocks, r.pos)
	b := blocks[i]
	at := int(r.pos - b.start)
	if b.records[n].kind == Item {
		at = begin // a position inside an item is its beginning
	}
	for at < len(b.data) && !utf8.RuneStart(b.data[at]) {
		at++ // a position inside a character is its end
	}
	if at == len(b.data) {
		r.pos = b.end()
		return r.next(limit)
	}
	start := b.start + int64(at)
	chunks := r.chunks[:0]
	size, weight := 0, 0
	whole := 0 // how many chunks are whole writes
	cost, wholeCost := int64(0), int64(0)
	for {
		rec := &b.records[n]
		data := b.data[at:rec.end]
		add, heavy := len(data)+r.overhead, len(data)+itemOverhead
		if rec.kind == Text {
			heavy += 5 * len(data) // \u0000
		}
		if len(chunks) == 0 || rec.kind == Item || chunks[len(chunks)-1].Kind == Item || chunks[len(chunks)-1].Stream != rec.stream {
			add += itemOverhead
		}
		if whole > 0 && size+add > limit || len(chunks) > 0 && weight+heavy > maxWeight {
			break
		}
		if rec.kind == Text && !rec.whole && len(data) > limit {
			data = data[:cutText(data, limit)]
		}
		chunks = append(chunks, Chunk{Kind: rec.kind, Stream: rec.stream, Data: data, More: rec.more, Whole: rec.whole})
		size += add
		weight += heavy
		cost += max(int64(len(data)), minCost)
		at += len(data)
		if !rec.more || at < int(rec.end) {
			whole, wholeCost = len(chunks), cost
		}
		if at < int(rec.end) {
			break
		}
		if last := &chunks[len(chunks)-1]; r.joins {
			// Text goes on: what the loop around this one does with it, and no more than that, since lines are many.
			begin := at - len(last.Data)
			for n+1 < len(b.records) && last.precedes(&b.records[n+1]) {
				add := int(b.records[n+1].end) - at
				heavy := 6*add + itemOverhead
				if size+add > limit || weight+heavy > maxWeight {
					break
				}
				size += add
				weight += heavy
				cost += max(int64(add), minCost)
				at += add
				n++
			}
			if last.Data = b.data[begin:at]; whole == len(chunks) {
				wholeCost = cost
			}
		}
		if n++; n == len(b.records) {
			if i++; i == len(blocks) {
				break
			}
			b, n, at = blocks[i], 0, 0
		}
	}
	if whole > 0 {
		chunks, cost = chunks[:whole], wholeCost
	}
	batch := Batch{Chunks: chunks, Start: start, End: start}
	for k := range chunks {
		batch.End += int64(len(chunks[k].Data))
	}
	r.cost += cost
	r.pos = batch.End
	r.chunks = chunks
	return batch, true
}

// precedes tells whether a chunk is text that goes on in the next record of its block: both whole writes to one stream.
func (c *Chunk) precedes(next *record) bool {
	return c.Kind == Text && next.kind == Text && c.Stream == next.stream && !c.More && !next.more
}
