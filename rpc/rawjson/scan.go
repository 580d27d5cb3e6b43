package rawjson

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math/bits"
	"strconv"
	"strings"
	"unicode/utf8"
)

// scanner checks JSON text in one pass (RFC 8259). json.Valid calls a state function per byte and takes three
// to five times as long, a µs more for a short line. The tests compare the two on random input.
//
// Its methods take the position where something begins and return the position after it, or no.
type scanner struct {
	text   []byte
	values int // counted so far, nested ones included
}

// maxDepth is encoding/json's own limit of nesting.
const maxDepth = 10_000

// no means that the text is not valid.
const no = -1

// value reads a value of any kind. UTF-8 is not checked.
func (s *scanner) value(i, depth int) int {
	if i >= len(s.text) {
		return no
	}
	s.values++
	switch s.text[i] {
	case '"':
		return s.str(i)
	case '{':
		return s.nested(i, depth, '}')
	case '[':
		return s.nested(i, depth, ']')
	}
	end := len(s.text)
	if n := bytes.IndexAny(s.text[i:], ",]} \t\r\n"); n >= 0 {
		end = i + n
	}
	if !json.Valid(s.text[i:end]) { // a number, true, false or null: short
		return no
	}
	return end
}

// nested reads an object or an array, up to its end.
func (s *scanner) nested(i, depth int, end byte) int {
	if depth == maxDepth {
		return no
	}
	if i = s.skip(i + 1); s.is(i, end) {
		return i + 1
	}
	for {
		if end == '}' {
			if !s.is(i, '"') {
				return no
			}
			if i = s.str(i); i == no {
				return no
			}
			if i = s.skip(i); !s.is(i, ':') {
				return no
			}
			i = s.skip(i + 1)
		}
		if i = s.value(i, depth+1); i == no {
			return no
		}
		if i = s.skip(i); s.is(i, end) {
			return i + 1
		}
		if !s.is(i, ',') {
			return no
		}
		i = s.skip(i + 1)
	}
}

// is reports whether c stands at i, which may be the end of the text.
func (s *scanner) is(i int, c byte) bool { return i < len(s.text) && s.text[i] == c }

// skip passes over blanks.
func (s *scanner) skip(i int) int {
	for i < len(s.text) && (s.text[i] == ' ' || s.text[i] == '\t' || s.text[i] == '\r' || s.text[i] == '\n') {
		i++
	}
	return i
}

func (s *scanner) str(i int) int {
	for i++; ; i++ {
		for marks := uint64(0); marks == 0 && i+8 <= len(s.text); i += bits.TrailingZeros64(marks) / 8 {
			marks = suspects(binary.LittleEndian.Uint64(s.text[i:]))
		}
		if i >= len(s.text) {
			return no
		}
		switch c := s.text[i]; {
		case c == '"':
			return i + 1
		case c < ' ':
			return no
		case c != '\\':
		case s.is(i+1, 'u'):
			if i += 5; i >= len(s.text) {
				return no
			}
			if _, err := strconv.ParseUint(string(s.text[i-3:i+1]), 16, 16); err != nil {
				return no
			}
		default:
			if i++; i == len(s.text) || strings.IndexByte(`"\/bfnrt`, s.text[i]) < 0 {
				return no
			}
		}
	}
}

// Scan reports whether text is one JSON value in UTF-8 without surrounding blanks, and counts its values,
// nested ones included. Call it before the other functions of this package, which take valid JSON for
// granted.
func Scan(text []byte) (values int, ok bool) {
	s := scanner{text: text}
	ok = utf8.Valid(text) && s.value(0, 0) == len(text)
	return s.values, ok
}
