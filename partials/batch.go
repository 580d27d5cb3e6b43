package partials

import (
	"bytes"
	"fmt"
	"iter"
	"sort"
	"unicode/utf8"

	"runnel/rpc/mcp"
	"runnel/tools/text"
)

const (
	firstBlock = 1 << 10         // most logs are short
	maxBlock   = 64 << 10        // large enough to cost nothing, small enough to be released soon
	maxText    = mcp.MaxText / 2 // longer text is cut when it is appended
)

// block holds consecutive chunks. data never grows beyond its capacity, so what a reader holds of it stays in
// place.
type block struct {
	start   int64
	cost    int64 // the cost of the log up to the end of this block
	data    []byte
	records []record
}

func (b *block) end() int64 { return b.start + int64(len(b.data)) }

// inMemory is the part of a log that memory holds.
type inMemory struct {
	end    int64    // of the log
	cost   int64    // of everything that was appended (costOf)
	gone   int64    // the part of cost that memory has released
	blocks []*block // oldest first; data before blocks[0].start is gone
}

// from is the position from which memory holds the log.
func (h *inMemory) from() int64 {
	if len(h.blocks) == 0 {
		return h.end
	}
	return h.blocks[0].start
}

// size returns how many bytes of memory it takes.
func (h *inMemory) size() int64 {
	n := int64(0)
	for _, b := range h.blocks {
		n += int64(cap(b.data)) + int64(cap(b.records))*8
	}
	return n
}

// write appends chunks, cutting text longer than maxText.
func (h *inMemory) write(chunks []Chunk) {
	var b *block
	if n := len(h.blocks); n > 0 {
		b = h.blocks[n-1]
	}
	for i := range chunks {
		c := &chunks[i]
		for data := c.Data; len(data) > 0; {
			r := record{kind: c.Kind, stream: c.Stream, more: c.More, whole: c.Whole}
			n := len(data)
			if c.Kind == Text && n > maxText {
				n, r.whole = cutText(data, maxText), false
			}
			if b == nil || cap(b.data)-len(b.data) < n {
				b = h.next(b, n)
			}
			b.data = append(b.data, data[:n]...)
			r.end = uint32(len(b.data))
			b.records = append(b.records, r)
			h.end += int64(n)
			h.cost += costOf(n)
			b.cost = h.cost
			data = data[n:]
		}
	}
}

// next adds a block after b, the last one, with room for n bytes.
func (h *inMemory) next(b *block, n int) *block {
	size, records := firstBlock, 0
	if b != nil {
		size = min(2*cap(b.data), maxBlock)
		// if chunks stay as long as they are.
		records = int(int64(len(b.records))*int64(size)/int64(cap(b.data))) + 1
	}
	b = &block{start: h.end, data: make([]byte, 0, max(size, n)), records: make([]record, 0, records)}
	h.blocks = append(h.blocks, b)
	return b
}

// place finds a position, or the next one at which a chunk or a character begins. It returns the block that
// holds it with those after it, the number of the chunk in that block, and the offset in its data. If there
// is no such position it returns no blocks.
func place(blocks []*block, pos int64) (from []*block, n, at int) {
	if len(blocks) == 0 || pos >= blocks[len(blocks)-1].end() {
		return nil, 0, 0
	}
	pos = max(pos, blocks[0].start)
	i := sort.Search(len(blocks), func(i int) bool { return blocks[i].end() > pos })
	b := blocks[i]
	at = int(pos - b.start)
	n = sort.Search(len(b.records), func(n int) bool { return int(b.records[n].end) > at })
	if b.records[n].kind == Item { // a position inside an item is its beginning
		at = 0
		if n > 0 {
			at = int(b.records[n-1].end)
		}
	}
	end := int(b.records[n].end)
	for at < end && !utf8.RuneStart(b.data[at]) {
		at++ // a position inside a character is its end
	}
	if at == end {
		return place(blocks[i:], b.start+int64(end))
	}
	return blocks[i:], n, at
}

// Stream is the stream that text was written to.
type Stream uint8

// The streams of text.
const (
	Stdout Stream = iota
	Stderr
)

// Kind is the kind of content that a chunk holds.
type Kind uint8

// The kinds of chunks.
const (
	Text Kind = iota // valid UTF-8, a part of a stream
	Item             // one content block, encoded as JSON
)

// Chunk is a piece of output, as the tool wrote it.
type Chunk struct {
	Kind   Kind
	Stream Stream // of Text
	Data   []byte
	More   bool // the next chunk belongs to the same write, so one notification carries both
	Whole  bool // Text that must not be cut, such as a line; at most 64 KiB
}

// Plain returns the data as a client gets it: without the colours that the log keeps for people.
func (c *Chunk) Plain() []byte { return text.WithoutColors(c.Data) }

// cutText returns how much of data to take, at most limit bytes: whole lines if there are any, otherwise
// whole characters.
func cutText(data []byte, limit int) int {
	if i := bytes.LastIndexByte(data[:limit], '\n'); i >= 0 {
		return i + 1
	}
	cut := limit
	// Colours stay in one piece: the text after one that was cut would begin with its end.
	if at := bytes.LastIndex(data[:cut], []byte(text.LogColor)); at > 0 &&
		len(text.WithoutColors(data[at:cut])) == 0 {
		return at
	}
	for cut > 0 && !utf8.RuneStart(data[cut]) {
		cut--
	}
	if cut == 0 { // limit is smaller than the character
		_, cut = utf8.DecodeRune(data)
	}
	return cut
}

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
