package partials

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
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

// drop releases blocks that end at position pos or before, as long as more than retain stays.
func (h *inMemory) drop(pos, retain int64) {
	n := 0
	for n < len(h.blocks)-1 && h.blocks[n].end() <= pos && h.cost-h.blocks[n].cost >= retain {
		n++
	}
	if n > 0 {
		h.gone = h.blocks[n-1].cost
	}
	clear(h.blocks[:n])
	h.blocks = h.blocks[n:]
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

// Extent is a part of a log that a backing keeps in one piece: whole chunks, and whole writes unless they are
// very long. A state stores Start, Marks and Data, and returns them from Backing.Load.
type Extent struct {
	Start int64  // position of the first byte of Data
	Marks []byte // where the chunks end and what they are, as Unsaved gave them
	Data  []byte

	decoded *block // set by Check
}

var errDamaged = errors.New("reading stored output: it is damaged")

// End is the position after the extent.
func (s *Extent) End() int64 { return s.Start + int64(len(s.Data)) }

// mark appends the mark of a chunk: its length, and four bits that say what it is.
func (s *Extent) mark(r *record, size int) {
	m := uint64(size)<<4 | uint64(r.kind)&1 | uint64(r.stream)&1<<1
	if r.more {
		m |= 1 << 2
	}
	if r.whole {
		m |= 1 << 3
	}
	s.Marks = binary.AppendUvarint(s.Marks, m)
}

// block decodes an extent, or returns an error if it is damaged.
func (s *Extent) block() (*block, error) {
	if s.decoded != nil {
		return s.decoded, nil
	}
	chunks := 0
	for _, m := range s.Marks {
		if m < 0x80 { // the last byte of a mark
			chunks++
		}
	}
	b := &block{start: s.Start, data: s.Data, records: make([]record, chunks)}
	at, rest := uint64(0), s.Marks
	for i := range b.records {
		m, n := binary.Uvarint(rest)
		if n <= 0 || m>>4 > uint64(len(s.Data))-at || uint64(len(s.Data)) > math.MaxUint32 {
			return nil, errDamaged
		}
		rest = rest[n:]
		at += m >> 4
		r := &b.records[i]
		r.end = uint32(at)
		r.kind = Kind(m & 1)
		r.stream = Stream(m >> 1 & 1)
		r.more = m&(1<<2) != 0
		r.whole = m&(1<<3) != 0
	}
	if len(rest) > 0 || at != uint64(len(s.Data)) || len(s.Data) == 0 {
		return nil, errDamaged
	}
	return b, nil
}

// Check returns an error if a stored extent is damaged: the marks must cover all the data, text must be
// UTF-8, and items must be JSON on one line.
// A state calls it on each extent that it reads, before Backing.Load returns it.
func (s *Extent) Check() error {
	b, err := s.block()
	if err != nil {
		return err
	}
	if !utf8.Valid(b.data) {
		return errDamaged
	}
	begin := uint32(0)
	for _, r := range b.records {
		data := b.data[begin:r.end]
		begin = r.end
		if len(data) > 0 && !utf8.RuneStart(data[0]) ||
			r.kind == Item && (bytes.IndexByte(data, '\n') >= 0 || !json.Valid(data)) {
			return errDamaged
		}
	}
	s.decoded = b
	return nil
}

// decode decodes extents, or returns an error if one of them is damaged.
func decode(extents []Extent) (blocks []*block, err error) {
	for i := range extents {
		b, err := extents[i].block()
		if err != nil {
			return nil, err
		}
		blocks = append(blocks, b)
	}
	return blocks, nil
}
