package partials

import (
	"bytes"
	"unicode/utf8"

	"runnel/tools/text"
)

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
	if at := bytes.LastIndex(data[:cut], []byte(text.LogColor)); at > 0 && len(text.WithoutColors(data[at:cut])) == 0 {
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
