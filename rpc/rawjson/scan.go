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

// Walk iterates over the members of a valid JSON object or the elements of an array, without recursion and
// without copying:
//
//	for it := rawjson.Over(value); it.Next(); {
type Walk struct {
	Quoted []byte // a member's name as it is written
	Name   []byte // the same, unescaped
	Value  []byte

	object bool
	rest   []byte // after the brace, the bracket or the last value
}

// Over begins a walk over value. A value of another kind, or nil, has nothing to iterate over.
func Over(value []byte) Walk {
	if !IsObject(value) && !IsArray(value) {
		return Walk{}
	}
	return Walk{object: value[0] == '{', rest: value[1:]}
}

// Next moves to the next member or element. It reports false if there is none.
func (w *Walk) Next() bool {
	if w.rest == nil {
		return false
	}
	w.rest = skipBlanks(w.rest)
	if w.rest[0] == ',' {
		w.rest = skipBlanks(w.rest[1:])
	}
	if w.rest[0] == '}' || w.rest[0] == ']' {
		return false
	}
	if w.object {
		n := stringLen(w.rest)
		w.Quoted = w.rest[:n]
		if w.Name = w.Quoted[1 : n-1]; bytes.IndexByte(w.Name, '\\') >= 0 {
			w.Name = []byte(Unquote(w.Quoted))
		}
		w.rest = skipBlanks(w.rest[n:])
		w.rest = skipBlanks(w.rest[1:]) // the colon
	}
	n := valueLen(w.rest)
	w.Value, w.rest = w.rest[:n:n], w.rest[n:]
	return true
}

// skipBlanks returns b without its leading blanks.
func skipBlanks(b []byte) []byte {
	i := 0
	for b[i] == ' ' || b[i] == '\t' || b[i] == '\r' || b[i] == '\n' {
		i++
	}
	return b[i:]
}

// valueLen returns the length of the valid JSON value that b begins with.
func valueLen(b []byte) int {
	switch b[0] {
	case '"':
		return stringLen(b)
	case '{', '[':
		depth := 0
		for i := 0; ; i++ {
			switch b[i] {
			case '"':
				i += stringLen(b[i:]) - 1
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
		}
	}
	i := 0
	for b[i] > ' ' && b[i] != ',' && b[i] != ']' && b[i] != '}' {
		i++
	}
	return i
}

// stringLen returns the length of the JSON string that b begins with, quotes included.
func stringLen(b []byte) int {
	for i := 1; ; i++ {
		i += bytes.IndexByte(b[i:], '"')
		escapes := 0
		for b[i-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return i + 1
		}
	}
}

// IsObject reports whether v is a JSON object. It is false for nil.
func IsObject(v []byte) bool { return len(v) > 0 && v[0] == '{' }

// IsArray reports whether v is a JSON array. It is false for nil.
func IsArray(v []byte) bool { return len(v) > 0 && v[0] == '[' }

// Unquote returns the text of a JSON string, "" for anything else.
func Unquote(raw []byte) string {
	switch {
	case len(raw) < 2 || raw[0] != '"':
		return ""
	case bytes.IndexByte(raw, '\\') < 0:
		return string(raw[1 : len(raw)-1])
	}
	var text string
	_ = json.Unmarshal(raw, &text)
	return text
}
