package partials

import (
	"slices"
	"sort"
)

// block holds chunks that follow each other. data never grows beyond its capacity, so what a
// reader holds of it stays where it is.
type block struct {
	start   int64
	cost    int64 // of the log up to here, the block included
	data    []byte
	records []record
}

type record struct {
	end    uint32 // in data
	kind   Kind
	stream Stream
	more   bool
	whole  bool
}

func (b *block) end() int64 { return b.start + int64(len(b.data)) }

// write adds one chunk, text longer than maxText in pieces. l.mu is held.
func (l *Log) write(c *Chunk) {
	data := c.Data
	for c.Kind == Text && len(data) > maxText {
		cut := cutText(data, maxText)
		l.record(data[:cut], record{kind: Text, stream: c.Stream, more: c.More})
		data = data[cut:]
	}
	if len(data) > 0 {
		l.record(data, record{kind: c.Kind, stream: c.Stream, more: c.More, whole: c.Whole})
	}
}

// writeLines adds lines, and copies as many at once as a block has room for. l.mu is held.
func (l *Log) writeLines(stream Stream, text []byte, ends []int) {
	for begin := 0; len(ends) > 0; {
		if line := text[begin:ends[0]]; len(line) > maxText { // what a command wrote has grown: of each byte that is no UTF-8 three are made
			l.write(&Chunk{Stream: stream, Data: line, Whole: true})
			begin, ends = ends[0], ends[1:]
			continue
		}
		b := l.roomy(ends[0] - begin)
		full := begin + cap(b.data) - len(b.data) // where in text the block's room ends
		n, _ := slices.BinarySearch(ends, full+1)
		shift := len(b.data) - begin // from text to b.data
		b.data = append(b.data, text[begin:ends[n-1]]...)
		l.end += int64(ends[n-1] - begin)
		for _, end := range ends[:n] {
			b.records = append(b.records, record{end: uint32(end + shift), stream: stream, whole: true})
			l.cost += costOf(end - begin)
			begin = end
		}
		b.cost = l.cost
		ends = ends[n:]
	}
}

// record adds one chunk. l.mu is held.
func (l *Log) record(data []byte, r record) {
	b := l.roomy(len(data))
	b.data = append(b.data, data...)
	r.end = uint32(len(b.data))
	b.records = append(b.records, r)
	l.end += int64(len(data))
	l.cost += costOf(len(data))
	b.cost = l.cost
}

// roomy is the last block, a new one if that has no room for n bytes. l.mu is held.
func (l *Log) roomy(n int) *block {
	var b *block
	if last := len(l.blocks) - 1; last >= 0 {
		b = l.blocks[last]
	}
	if b == nil || cap(b.data)-len(b.data) < n {
		size, records := firstBlock, 0
		if b != nil {
			size = min(2*cap(b.data), maxBlock)
			records = int(int64(len(b.records))*int64(size)/int64(cap(b.data))) + 1 // if it goes on like this
		}
		b = &block{start: l.end, data: make([]byte, 0, max(size, n)), records: make([]record, 0, records)}
		l.blocks = append(l.blocks, b)
	}
	return b
}

// find is which block holds a position, which of its chunks does, and where in its data that chunk begins. The blocks must hold it.
func find(blocks []*block, pos int64) (i, n, begin int) {
	i = sort.Search(len(blocks), func(i int) bool { return blocks[i].end() > pos })
	b := blocks[i]
	at := int(pos - b.start)
	n = sort.Search(len(b.records), func(n int) bool { return int(b.records[n].end) > at })
	if n > 0 {
		begin = int(b.records[n-1].end)
	}
	return i, n, begin
}

// costOf is what a chunk of n bytes counts in memory, with its record.
func costOf(n int) int64 { return max(int64(n), minCost) }
