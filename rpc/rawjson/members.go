package rawjson

import (
	"bytes"
	"encoding/json"
)

// Members walks over the members of a JSON object known to be valid, without recursion and without copying.
type Members struct {
	Quoted []byte // the name as it is written
	Name   []byte // unescaped
	Value  []byte

	rest []byte // after the brace or the last value
}

// MembersOf begins a walk over an object.
func MembersOf(object []byte) Members { return Members{rest: object[1:]} }

// Next goes on to the next member, and reports false if there is none.
func (m *Members) Next() bool {
	m.rest = SkipBlanks(m.rest)
	if m.rest[0] == ',' {
		m.rest = SkipBlanks(m.rest[1:])
	}
	if m.rest[0] == '}' {
		return false
	}
	n := stringLen(m.rest)
	m.Quoted = m.rest[:n]
	if m.Name = m.Quoted[1 : n-1]; bytes.IndexByte(m.Name, '\\') >= 0 {
		m.Name = []byte(Unquote(m.Quoted))
	}
	m.rest = SkipBlanks(m.rest[n:])
	m.rest = SkipBlanks(m.rest[1:]) // the colon
	n = valueLen(m.rest)
	m.Value, m.rest = m.rest[:n:n], m.rest[n:]
	return true
}

// EachMember hands the name, unescaped, and the value of each member of a valid JSON object to f, until it returns false.
func EachMember(object []byte, f func(name, value []byte) bool) {
	for it := MembersOf(object); it.Next() && f(it.Name, it.Value); {
	}
}

// Elements walks over the elements of a JSON array known to be valid.
type Elements struct {
	Value []byte

	rest []byte // after the bracket or the last value
}

// ElementsOf begins a walk over an array.
func ElementsOf(array []byte) Elements { return Elements{rest: array[1:]} }

// Next goes on to the next element, and reports false if there is none.
func (e *Elements) Next() bool {
	e.rest = SkipBlanks(e.rest)
	if e.rest[0] == ',' {
		e.rest = SkipBlanks(e.rest[1:])
	}
	if e.rest[0] == ']' {
		return false
	}
	n := valueLen(e.rest)
	e.Value, e.rest = e.rest[:n:n], e.rest[n:]
	return true
}

// EachElement hands each element of a valid JSON array to f, until it returns false.
func EachElement(array []byte, f func(value []byte) bool) {
	for it := ElementsOf(array); it.Next() && f(it.Value); {
	}
}

// SkipBlanks is b without the blanks that it begins with.
func SkipBlanks(b []byte) []byte {
	i := 0
	for b[i] == ' ' || b[i] == '\t' || b[i] == '\r' || b[i] == '\n' {
		i++
	}
	return b[i:]
}

// valueLen is the length of the valid JSON value that b begins with.
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
	return bytes.IndexAny(b, ",]} \t\r\n")
}

// stringLen is the length of the JSON string that b begins with, quotes included.
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

// IsObject reports whether encoded JSON is an object, and not anything else or nothing.
func IsObject(v []byte) bool { return len(v) > 0 && v[0] == '{' }

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
