package rawjson

import (
	"bytes"
)

// IDFinder looks for the top-level "id" of an object that passes by in pieces and is too long to keep,
// so that the client that waits for its answer gets one. The TypeScript SDK writes the id after the params.
// It does not check the JSON.
type IDFinder struct {
	Max int // bytes of an id; a longer one is cut after Max+1

	depth    int
	inString bool
	escaped  bool
	isKey    bool // the string being read is a member's name
	expect   bool // a member's name comes next, not its value
	name     []byte
	value    []byte
	taking   bool // the value of "id" is passing by
	found    int  // how many there were; with two there is no id
}

// ID returns what stands as the value of "id", whatever it is; nil if there was none or several.
func (s *IDFinder) ID() []byte {
	if s.found != 1 {
		return nil
	}
	return s.value
}

// Feed takes the next piece.
func (s *IDFinder) Feed(b []byte) {
	for i := 0; i < len(b); i++ {
		if s.inString && !s.escaped && !s.isKey && !s.taking {
			// A long line is mostly the inside of strings.
			n := bytes.IndexAny(b[i:], "\"\\")
			if n < 0 {
				return
			}
			i += n
		}
		s.byte(b[i])
	}
}

func (s *IDFinder) byte(c byte) {
	switch {
	case s.inString:
		s.text(c)
	case c == '"':
		s.inString, s.isKey = true, s.depth == 1 && s.expect
		if s.isKey {
			s.name = s.name[:0]
		}
		s.take(c)
	case c == '{' || c == '[':
		s.depth++
		s.expect = s.depth == 1
		s.take(c)
	case s.depth == 1 && (c == ',' || c == '}'):
		s.taking, s.expect = false, c == ','
		if c == '}' {
			s.depth--
		}
	case c == '}' || c == ']':
		s.depth--
		s.take(c)
	case s.depth == 1 && c == ':':
		s.expect = false
		if string(s.name) == "id" {
			s.taking, s.value = true, s.value[:0]
			s.found++
		}
	case c == ' ' || c == '\t' || c == '\r':
	default:
		s.take(c)
	}
}

// text takes a byte of a string, quotes excluded at the front.
func (s *IDFinder) text(c byte) {
	s.take(c)
	switch {
	case s.escaped:
		s.escaped = false
	case c == '\\':
		s.escaped = true
	case c == '"':
		s.inString, s.isKey = false, false
		return
	}
	if s.isKey && len(s.name) < len("id")+1 {
		s.name = append(s.name, c)
	}
}

func (s *IDFinder) take(c byte) {
	if s.taking && len(s.value) <= s.Max {
		s.value = append(s.value, c)
	}
}
