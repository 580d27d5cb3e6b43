package rpc

import "bytes"

// members walks over the members of a JSON object known to be valid, without recursion and without copying.
type members struct {
	rest   []byte // behind the brace or the last value
	quoted []byte // the name as it is written
	name   []byte // unescaped
	value  []byte
}

func (m *members) next() bool {
	m.rest = skipBlanks(m.rest)
	if m.rest[0] == ',' {
		m.rest = skipBlanks(m.rest[1:])
	}
	if m.rest[0] == '}' {
		return false
	}
	n := stringLen(m.rest)
	m.quoted = m.rest[:n]
	if m.name = m.quoted[1 : n-1]; bytes.IndexByte(m.name, '\\') >= 0 {
		m.name = []byte(unquote(m.quoted))
	}
	m.rest = skipBlanks(m.rest[n:])
	m.rest = skipBlanks(m.rest[1:]) // the colon
	n = valueLen(m.rest)
	m.value, m.rest = m.rest[:n], m.rest[n:]
	return true
}

// EachMember hands the name, unescaped, and the value of each member of a valid JSON object to f, until it returns false.
func EachMember(object []byte, f func(name, value []byte) bool) {
	for it := (members{rest: object[1:]}); it.next() && f(it.name, it.value); {
	}
}

// elements walks over the elements of a JSON array known to be valid.
type elements struct {
	rest  []byte // behind the bracket or the last value
	value []byte
}

func (e *elements) next() bool {
	e.rest = skipBlanks(e.rest)
	if e.rest[0] == ',' {
		e.rest = skipBlanks(e.rest[1:])
	}
	if e.rest[0] == ']' {
		return false
	}
	n := valueLen(e.rest)
	e.value, e.rest = e.rest[:n], e.rest[n:]
	return true
}

// EachElement hands each element of a valid JSON array to f, until it returns false.
func EachElement(array []byte, f func(value []byte) bool) {
	for it := (elements{rest: array[1:]}); it.next() && f(it.value); {
	}
}

func skipBlanks(b []byte) []byte {
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

// appendMember appends a member to an object that has been begun. Its name is quoted.
func appendMember(to *bytes.Buffer, name, value []byte) {
	if to.Len() > 1 {
		to.WriteByte(',')
	}
	to.Write(name)
	to.WriteByte(':')
	to.Write(value)
}
