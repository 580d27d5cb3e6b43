package partials

import (
	"unicode/utf8"

	"runnel/rpc/mcp"
)

// next returns up to limit bytes of what comes next, whole writes where they fit, and moves on behind it. It returns false where memory,
// or what was loaded, has nothing at r.pos. log.mu is held.
func (r *Reader) next(limit int) (Batch, bool) {
	blocks, n, at := r.place()
	if blocks == nil {
		pos := min(r.pos, r.log.end)
		return Batch{Start: pos, End: pos}, false
	}
	b := blocks[0]
	start := b.start + int64(at)
	chunks := r.chunks[:0]
	whole := 0    // how many of them are whole writes
	var sum total // of them
	for {
		rec := &b.records[n]
		data := b.data[at:rec.end]
		size, weight := len(data)+r.overhead, rec.weight(len(data))
		if k := len(chunks) - 1; k < 0 || rec.kind == Item || chunks[k].Kind == Item || chunks[k].Stream != rec.stream {
			size += itemOverhead // it begins a content item
		}
		if whole > 0 && sum.size+size > limit || len(chunks) > 0 && sum.weight+weight > mcp.MaxContent {
			break
		}
		if rec.kind == Text && !rec.whole && len(data) > limit {
			data = data[:cutText(data, limit)]
		}
		chunks = append(chunks, Chunk{Kind: rec.kind, Stream: rec.stream, Data: data, More: rec.more, Whole: rec.whole})
		sum.size += size
		sum.weight += weight
		sum.cost += costOf(len(data))
		at += len(data)
		cut := at < int(rec.end)
		if !rec.more || cut {
			whole = len(chunks)
		}
		if cut {
			break
		}
		if r.joins && rec.kind == Text && !rec.more {
			n, at, sum = chunks[len(chunks)-1].join(b, n, at, sum, limit)
		}
		if n++; n == len(b.records) {
			if blocks = blocks[1:]; len(blocks) == 0 {
				break
			}
			b, n, at = blocks[0], 0, 0
		}
	}
	if whole > 0 { // else half a write is all that there is room for
		for i := range chunks[whole:] {
			sum.cost -= costOf(len(chunks[whole+i].Data))
		}
		chunks = chunks[:whole]
	}
	batch := Batch{Chunks: chunks, Start: start, End: start}
	for i := range chunks {
		batch.End += int64(len(chunks[i].Data))
	}
	r.chunks, r.pos = chunks, batch.End
	r.cost += sum.cost
	return batch, true
}

// place finds r.pos, or what comes behind it if memory has let that go: the block and those that follow, which record of the block, and
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

// total is what the chunks of a batch come to.
type total struct {
	size   int   // of the data, and about what goes around it in the notification
	weight int   // as JSON at worst
	cost   int64 // see costOf
}

// weight is how long n bytes of a record are as JSON at worst.
func (r *record) weight(n int) int {
	if r.kind == Text {
		n *= 6 // \u0000
	}
	return n + itemOverhead
}

// join lets a chunk go on over the writes to the same stream that follow it in its block. The chunk is a whole write of text, of record n, and
// ends at at. What it does with each is what the loop of next would, and no more than that, since lines are many. It returns where it
// ends then, and the new sum.
func (last *Chunk) join(b *block, n, at int, sum total, limit int) (int, int, total) {
	begin := at - len(last.Data)
	for n+1 < len(b.records) {
		rec := &b.records[n+1]
		size := int(rec.end) - at
		weight := rec.weight(size)
		if rec.kind != Text || rec.stream != last.Stream || rec.more || sum.size+size > limit || sum.weight+weight > mcp.MaxContent {
			break
		}
		sum.size += size
		sum.weight += weight
		sum.cost += costOf(size)
		at += size
		n++
	}
	last.Data = b.data[begin:at]
	return n, at, sum
}
