package text

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"runnel/internal/shorten"
)

// Valid returns p with U+FFFD in place of each byte that is not UTF-8.
func Valid(p []byte) []byte {
	if utf8.Valid(p) {
		return p
	}
	return []byte(string([]rune(string(p))))
}

// Decoder turns bytes that come in pieces into valid UTF-8. A character that is split between two pieces
// stays whole.
type Decoder struct {
	rest  []byte // the beginning of a character whose end has not come yet
	whole []byte // rest and a piece
}

// Decode returns p as text, valid until the next call. The beginning of a character at the end of p waits for
// its rest.
func (d *Decoder) Decode(p []byte) []byte {
	if len(d.rest) > 0 {
		d.whole = append(append(d.whole[:0], d.rest...), p...)
		p = d.whole
	}
	cut := shorten.Whole(p)
	d.rest = append(d.rest[:0], p[cut:]...)
	return Valid(p[:cut])
}

// Flush ends the text and returns what waited for its rest.
func (d *Decoder) Flush() []byte {
	text := Valid(d.rest)
	d.rest = nil
	return text
}

// LastLines returns the end of a text, at most most bytes: in whole lines if possible, each as a terminal
// would show it in the end (the part after its last \r), without escape sequences.
func LastLines(output []byte, most int) string {
	output = StripANSI(bytes.ToValidUTF8(output, nil))
	lines := strings.Split(strings.TrimRight(string(output), " \t\r\n"), "\n")
	for i, line := range lines {
		line = strings.TrimRight(line, "\r")
		lines[i] = line[strings.LastIndexByte(line, '\r')+1:]
	}
	s := strings.Join(lines, "\n")
	if len(s) <= most {
		return s
	}
	from := len(s) - most
	if i := strings.IndexByte(s[from-1:], '\n'); i >= 0 {
		return s[from+i:]
	}
	return strings.ToValidUTF8(s[from:], "")
}
