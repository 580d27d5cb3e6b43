package rawjson

import (
	"bytes"
	"unicode/utf8"
)

// scanner reads JSON text once and checks the grammar (RFC 8259). json.Valid calls a state function per byte, which was
// a third of a call's processor time. The tests hold it to json.Valid on random input.
//
// Its methods take the position where something begins and return the one after it, or no.
type scanner struct {
	text   []byte
	values int // seen so far, those within others too
}

// maxDepth is encoding/json's own limit of nesting.
const maxDepth = 10_000

// no stands for a position where the text is not valid.
const no = -1

// value reads a value of any kind. UTF-8 is not checked.
func (s *scanner) value(i, depth int) int {
	if i >= len(s.text) {
		return no
	}
	s.values++
	switch c := s.text[i]; {
	case c == '"':
		return s.str(i)
	case c == '{':
		return s.nested(i, depth, '}')
	case c == '[':
		return s.nested(i, depth, ']')
	case c == '-' || c >= '0' && c <= '9':
		return s.number(i)
	case c == 't':
		return s.word(i, "true")
	case c == 'f':
		return s.word(i, "false")
	case c == 'n':
		return s.word(i, "null")
	}
	return no
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

func (s *scanner) word(i int, word string) int {
	if bytes.HasPrefix(s.text[i:], []byte(word)) {
		return i + len(word)
	}
	return no
}

// digits passes over digits, of which there may be none.
func (s *scanner) digits(i int) int {
	for i < len(s.text) && s.text[i] >= '0' && s.text[i] <= '9' {
		i++
	}
	return i
}

func (s *scanner) number(i int) int {
	if s.text[i] == '-' {
		i++
	}
	begin := i
	if i = s.digits(i); i == begin || i > begin+1 && s.text[begin] == '0' {
		return no
	}
	if s.is(i, '.') {
		begin = i + 1
		if i = s.digits(begin); i == begin {
			return no
		}
	}
	if s.is(i, 'e') || s.is(i, 'E') {
		if i++; s.is(i, '+') || s.is(i, '-') {
			i++
		}
		begin = i
		if i = s.digits(begin); i == begin {
			return no
		}
	}
	return i
}

func (s *scanner) str(i int) int {
	for i++; i < len(s.text); i++ {
		switch c := s.text[i]; {
		case c == '"':
			return i + 1
		case c < ' ':
			return no
		case c == '\\':
			if i++; i == len(s.text) {
				return no
			}
			switch s.text[i] {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			case 'u':
				for range 4 {
					if i++; i == len(s.text) || !isHex(s.text[i]) {
						return no
					}
				}
			default:
				return no
			}
		}
	}
	return no
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

// Scan reports whether text is one JSON value in UTF-8, with no blanks around it, and how many values it has, those within others too.
func Scan(text []byte) (values int, ok bool) {
	s := scanner{text: text}
	ok = utf8.Valid(text) && s.value(0, 0) == len(text)
	return s.values, ok
}
