package partials

import (
	"fmt"
	"iter"
	"sort"
	"unicode/utf8"

	"runnel/rpc/mcp"
)

// Batch is a run of consecutive chunks. Its contents must not be changed.
// Use Items to send it on as content, and Chunks to show or store it as it was written.
type Batch struct {
	Start int64 // position of the first byte
	End   int64 // position after the last one
	Lost  bool  // the output from Start to End is no longer kept; the only chunk says so

	Colors bool // a Dialect leaves the colours of the log in the text: see DeliverOptions

	data    []byte   // the chunks, possibly with others around them
	begin   int      // where the first chunk begins in data
	records []record // one for each chunk; the last may end before data does
}

// record says where a chunk ends in its data, and what it is.
type record struct {
	end    uint32 // in data
	kind   Kind
	stream Stream
	more   bool
	whole  bool
}

// tooLong reports whether a chunk of n bytes is text that must be cut to fit into limit.
func (r *record) tooLong(n, limit int) bool { return r.kind == Text && !r.whole && n > limit }

// continues reports whether a chunk continues the text of the one before: adjacent text of one stream is one
// item.
func (r *record) continues(before *record) bool {
	return r.kind == Text && before.kind == Text && r.stream == before.stream
}

// NewBatch makes a batch of consecutive chunks that begin at position start of a log.
func NewBatch(start int64, chunks ...Chunk) Batch {
	b := Batch{Start: start, End: start}
	for _, c := range chunks {
		b.data = append(b.data, c.Data...)
		b.records = append(b.records, record{end: uint32(len(b.data)), kind: c.Kind, stream: c.Stream,
			more: c.More, whole: c.Whole})
		b.End += int64(len(c.Data))
	}
	return b
}

// LostWords is the text that replaces output that is no longer kept. It is empty for less than a character,
// since a reader inside a character begins after it.
func LostWords(bytes int64) string {
	if bytes < utf8.UTFMax {
		return ""
	}
	return fmt.Sprintf("[%d bytes of output are no longer kept]\n", bytes)
}

// lostBatch makes the batch that replaces output that is no longer kept.
func lostBatch(start, end int64) Batch {
	b := NewBatch(start, Chunk{Data: []byte(LostWords(end - start))})
	b.End, b.Lost = end, true
	return b
}

// Chunks returns the chunks of the batch, as they were written.
func (b Batch) Chunks() []Chunk {
	chunks := make([]Chunk, 0, len(b.records))
	at := b.begin
	for _, r := range b.records {
		chunks = append(chunks, Chunk{Kind: r.kind, Stream: r.stream, Data: b.data[at:r.end:r.end],
			More: r.more, Whole: r.whole})
		at = int(r.end)
	}
	return chunks
}

// Items yields the items of the batch as a client gets them: adjacent text of one stream is one item.
func (b *Batch) Items() iter.Seq[Chunk] {
	return func(yield func(Chunk) bool) {
		at := b.begin
		for i := 0; i < len(b.records); {
			r, begin := &b.records[i], at
			for i++; i < len(b.records) && b.records[i].continues(r); i++ {
			}
			at = int(b.records[i-1].end)
			if !yield(Chunk{Kind: r.kind, Stream: r.stream, Data: b.data[begin:at:at]}) {
				return
			}
		}
	}
}

// stop is where the last chunk ends in data.
func (b *Batch) stop() int {
	if n := len(b.records); n > 0 {
		return int(b.records[n-1].end)
	}
	return b.begin
}

// bytes is the data of all chunks.
func (b *Batch) bytes() []byte { return b.data[b.begin:b.stop()] }

// copyFrom makes b a copy of another batch. It reuses the memory of b.
func (b *Batch) copyFrom(other Batch) {
	*b = Batch{Start: other.Start, End: other.Start, data: b.data[:0], records: b.records[:0]}
	b.add(other)
}

// add appends a copy of the batch that comes next. b must have begun empty.
func (b *Batch) add(next Batch) {
	shift := len(b.data) - next.begin
	b.data = append(b.data, next.bytes()...)
	n := len(b.records)
	b.records = append(b.records, next.records...)
	for i := range b.records[n:] {
		b.records[n+i].end += uint32(shift)
	}
	b.End = next.End
}

// cost is the cost of the chunks in memory.
func (b *Batch) cost() int64 {
	cost, at := int64(0), b.begin
	for i := range b.records {
		end := int(b.records[i].end)
		cost += costOf(end - at)
		at = end
	}
	return cost
}

// minCost is the least cost of a chunk, in bytes of memory: its record takes some, too.
const minCost = 16

// costOf is the cost of a chunk of n bytes in memory, with its record.
func costOf(n int) int64 { return max(int64(n), minCost) }

// split takes the first n chunks out of b.
func (b *Batch) split(n int) Batch {
	first := *b
	first.records, b.records = b.records[:n:n], b.records[n:]
	b.begin = first.stop()
	b.Start += int64(b.begin - first.begin)
	first.End = b.Start
	return first
}

// cut takes everything before a position out of b, including a part of the chunk around it.
func (b *Batch) cut(pos int64) Batch {
	at := b.begin + int(min(max(pos, b.Start), b.End)-b.Start)
	n := sort.Search(len(b.records), func(n int) bool { return int(b.records[n].end) > at })
	rest := *b
	first := b.split(n)
	if left := at - first.stop(); left > 0 {
		first.records = append(first.records, rest.records[n])
		first.records[n].end = uint32(at)
		first.End += int64(left)
		b.begin, b.Start = at, first.End
	}
	return first
}

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
		if f.chunks > 0 && (f.weight+weight > mcp.MaxContent ||
			(f.whole > 0 || long) && f.size+size > f.limit) {
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
