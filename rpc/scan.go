package rpc

import (
	"bytes"
	"unicode/utf8"
)

// scanner reads JSON text once: it checks the grammar (RFC 8259) and finds where values end. encoding/json takes three
// passes to do as much for an envelope, each a call of a state function per byte; that was a third of a call's processor
// time. The tests hold it to json.Valid, and scanEnvelope to checkJSON and split, on random input.
//
// Its methods take the position where something begins and return the one behind it, or no.
type scanner struct {
	text   []byte
	blanks bool // some were passed over
	values int  // seen so far, those within others too
}

// maxDepth is encoding/json's own limit of nesting.
const maxDepth = 10_000

// maxValues bounds the values in a line, those within others too: a byte or two each, millions of them would take
// hundreds of MiB once they are decoded.
const maxValues = 100_000

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
		return s.object(i, depth, nil)
	case c == '[':
		return s.array(i, depth)
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

// object reads an object, and hands each member's name, quotes included, and value to member, which may be nil.
func (s *scanner) object(i, depth int, member func(name, value []byte)) int {
	if depth == maxDepth {
		return no
	}
	if i = s.skip(i + 1); s.is(i, '}') {
		return i + 1
	}
	for {
		name := i
		if !s.is(i, '"') {
			return no
		}
		if i = s.str(i); i == no {
			return no
		}
		nameEnd := i
		if i = s.skip(i); !s.is(i, ':') {
			return no
		}
		value := s.skip(i + 1)
		if i = s.value(value, depth+1); i == no {
			return no
		}
		if member != nil {
			member(s.text[name:nameEnd], s.text[value:i])
		}
		if i = s.skip(i); s.is(i, '}') {
			return i + 1
		}
		if !s.is(i, ',') {
			return no
		}
		i = s.skip(i + 1)
	}
}

func (s *scanner) array(i, depth int) int {
	if depth == maxDepth {
		return no
	}
	if i = s.skip(i + 1); s.is(i, ']') {
		return i + 1
	}
	for {
		if i = s.value(i, depth+1); i == no {
			return no
		}
		if i = s.skip(i); s.is(i, ']') {
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
		s.blanks = true
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

// isCompact reports whether text is one JSON value without blanks between its parts.
func isCompact(text []byte) bool {
	s := scanner{text: text}
	return s.value(0, 0) == len(text) && !s.blanks
}

// scanLine is scanEnvelope of any line.
func scanLine(line []byte) (e envelope, ok bool) {
	if line[0] != '{' || !utf8.Valid(line) {
		return e, false
	}
	return scanEnvelope(line)
}

// scanEnvelope checks a line that begins with a brace and takes it apart, all in one pass but for the check of UTF-8.
// ok is false if it is not valid, or anything about it is unusual: then checkJSON and split tell what.
func scanEnvelope(line []byte) (e envelope, ok bool) {
	s := scanner{text: line}
	unusual := false
	end := s.object(0, 0, func(name, value []byte) {
		to := e.field(name[1 : len(name)-1])
		if to == nil {
			unusual = unusual || bytes.IndexByte(name, '\\') >= 0 // it may be one of them, written with escapes
			return
		}
		unusual = unusual || *to != nil
		*to = value
	})
	return e, end == len(line) && !unusual && s.values <= maxValues
}

// tooMany reports whether a line that is valid has more than maxValues values.
func tooMany(line []byte) bool {
	s := scanner{text: line}
	s.value(0, 0)
	return s.values > maxValues
}
