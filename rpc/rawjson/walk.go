package rawjson

import (
	"bytes"
	"encoding/json"
)

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
