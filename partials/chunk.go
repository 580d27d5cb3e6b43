package partials

import (
	"bytes"
	"unicode/utf8"
)

// Stream is where text comes from.
type Stream uint8

// The streams of text.
const (
	Stdout Stream = iota
	Stderr
)

// Kind is what a chunk holds.
type Kind uint8

// The kinds of chunks.
const (
	Text Kind = iota // valid UTF-8, part of a stream of text
	Item             // one content block, encoded
)

// Chunk is a piece of output, as it was written.
// Use it with Log.Append where a tool needs more than text and items.
type Chunk struct {
	Kind   Kind
	Stream Stream // only Text has one
	Data   []byte
	More   bool // the next chunk belongs to the same write: one notification carries both
	Whole  bool // Text that must not be cut, such as a line; at most 64 KiB
}

// cutText returns how much of data to take, at most limit bytes: whole lines if there are any, otherwise whole characters.
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
