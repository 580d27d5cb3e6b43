package partials

import (
	"fmt"
	"iter"
	"sort"
	"unicode/utf8"
)

// Batch is a run of chunks, as they lie in the log. What it holds must not be changed.
type Batch struct {
	Start int64 // position of the first byte
	End   int64 // position after the last one
	Lost  bool  // the output from Start to End is no longer kept; the one chunk says so

	data    []byte   // the chunks, perhaps with others around them
	begin   int      // where the first one begins in data
	records []record // one a chunk; the last ends where data ends, or before
}

// record says where a chunk ends and what it is.
type record struct {
	end    uint32 // in data
	kind   Kind
	stream Stream
	more   bool
	whole  bool
}

// tooLong reports whether a chunk of n bytes is a text of which only a part goes into limit.
func (r *record) tooLong(n, limit int) bool { return r.kind == Text && !r.whole && n > limit }

// continues reports whether a chunk goes on with the text of the one before it: both are one content item.
func (r *record) continues(before *record) bool {
	return r.kind == Text && before.kind == Text && r.stream == before.stream
}

// NewBatch makes a batch of chunks that follow each other in a log from position start on.
func NewBatch(start int64, chunks ...Chunk) Batch {
	b := Batch{Start: start, End: start}
	for _, c := range chunks {
		b.data = append(b.data, c.Data...)
		b.records = append(b.records, record{end: uint32(len(b.data)), kind: c.Kind, stream: c.Stream, more: c.More, whole: c.Whole})
		b.End += int64(len(c.Data))
	}
	return b
}

// LostWords stand for output that is no longer kept; empty for less than a character: reading from inside one begins after it.
func LostWords(bytes int64) string {
	if bytes < utf8.UTFMax {
		return ""
	}
	return fmt.Sprintf("[%d bytes of output are no longer kept]\n", bytes)
}

// lostBatch makes the batch that stands for output that is no longer kept.
func lostBatch(start, end int64) Batch {
	b := NewBatch(start, Chunk{Data: []byte(LostWords(end - start))})
	b.End, b.Lost = end, true
	return b
}

// Chunks are the chunks of the batch, as they were written.
func (b Batch) Chunks() []Chunk {
	chunks := make([]Chunk, 0, len(b.records))
	at := b.begin
	for _, r := range b.records {
		chunks = append(chunks, Chunk{Kind: r.kind, Stream: r.stream, Data: b.data[at:r.end:r.end], More: r.more, Whole: r.whole})
		at = int(r.end)
	}
	return chunks
}

// Items are the content items of the batch: chunks of text that continue each other are one.
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

// hold makes b a copy of another one, in the memory that it has.
func (b *Batch) hold(other Batch) {
	*b = Batch{Start: other.Start, End: other.Start, data: b.data[:0], records: b.records[:0]}
	b.add(other)
}

// add appends a copy of what comes next. b must be one that began empty.
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

// cost is what the chunks count in memory.
func (b *Batch) cost() int64 {
	cost, at := int64(0), b.begin
	for i := range b.records {
		end := int(b.records[i].end)
		cost += costOf(end - at)
		at = end
	}
	return cost
}

// minCost is what a chunk counts at least, in bytes of memory: its record counts too.
const minCost = 16

// costOf is what a chunk of n bytes counts in memory, with its record.
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

// cut takes what stands before a position out of b: of the chunk that goes on after it, a part.
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
