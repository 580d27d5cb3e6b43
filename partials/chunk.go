package partials

import (
	"bytes"
	"unicode/utf8"
)

// Stream tells where text comes from.
type Stream uint8

// The streams of text.
const (
	Stdout Stream = iota
	Stderr
)

// Kind tells what a chunk holds.
type Kind uint8

// The kinds of chunks.
const (
	Text Kind = iota // valid UTF-8, part of a stream of text
	Item             // one content block, encoded
)

// Chunk is one piece of output, as it was written.
type Chunk struct {
	Kind   Kind
	Stream Stream // of Text
	Data   []byte
	More   bool // the next chunk belongs to the same write: both stay together in one notification
	Whole  bool // Text that is not cut, such as a line; 64 KiB at most
}

// Batch is a run of chunks. Its data belongs to the log and must not be changed.
type Batch struct {
	Chunks []Chunk
	Start  int64 // position of the first byte
	End    int64 // position after the last one
	Lost   bool  // what stood from Start to End is no longer kept; the one chunk says so
}

// cutText returns how much of data to take, limit bytes at most: whole lines if there are any, else whole characters.
func cutText(data []byte, limit int) int {
	if i := bytes.LastIndexByte(data[:limit], '\n'); i >= 0 {
		return i + 1
	}
	cut := limit
	for cut > 0 && !utf8.RuneStart(data[cut]) {
		cut--
	}
	if cut == 0 { // limit is smaller than the character
		_, cut = utf8.DecodeRune(data)
	}
	return cut
}

// take takes the chunks up to a position out of a batch.
func (b *Batch) take(pos int64) []Chunk {
	n := 0
	for n < len(b.Chunks) && b.Start+int64(len(b.Chunks[n].Data)) <= pos {
		b.Start += int64(len(b.Chunks[n].Data))
		n++
	}
	chunks := b.Chunks[:n:n]
	b.Chunks = b.Chunks[n:]
	if left := pos - b.Start; left > 0 && len(b.Chunks) > 0 { // a part of one
		c := b.Chunks[0]
		c.Data, b.Chunks[0].Data = c.Data[:left], c.Data[left:]
		b.Start = pos
		chunks = append(chunks, c)
	}
	return chunks
}
