package text

import (
	"bytes"
	"slices"
	"sort"
	"unicode/utf8"

	"runnel/internal/shorten"
)

// maxSlack is how many bytes are given up, at most, to cut between two lines.
const maxSlack = 2 << 10

// excerpt keeps the head and the tail of a text.
type excerpt struct {
	max int // the size of the head; at least as many bytes of the tail are kept

	head stretch
	size int // of the head
	full bool
	tail stretch // the text after the head, or the end of that
	gone bool    // text between head and tail was dropped
}

// add appends text, which has the position at.
func (e *excerpt) add(text []byte, at int64) {
	if !e.full {
		n, size := fitHead(text, e.max-e.size)
		e.head.add(text[:n], at)
		e.size += size
		e.full = n < len(text)
		text, at = text[n:], at+int64(n)
	}
	if len(text) == 0 {
		return
	}
	e.tail.add(text, at)
	if n := len(e.tail.text) - e.max; n > e.max {
		e.tail.drop(n)
		e.gone = true
	}
}

// cut returns head and tail in a size of limit, with words between them. end is the position after the text.
func (e *excerpt) cut(limit int, end int64, words func(Gap) string) string {
	line := func(g Gap) []byte { return append([]byte(words(g)), '\n') }
	_, room := fitHead(line(Gap{After: end, Bytes: end}), limit)
	const newline = len(`\n`) // after a head that ends within a line
	n, size := fitHead(e.head.text, min(limit/4, limit-room-newline))
	head := e.head.text[:n]
	if i := bytes.LastIndexByte(head, '\n') + 1; i > 0 && n-i < min(maxSlack, n/2) {
		head = head[:i]
		_, size = fitHead(head, limit)
	}
	if n := len(head); n > 0 && head[n-1] != '\n' {
		size += newline
	}
	tail, from := &e.tail, 0
	if !e.gone { // the rest of the head belongs to it
		tail = &stretch{}
		e.head.each(tail.add)
		e.tail.each(tail.add)
		from = len(head)
	}
	from += fitTail(tail.text[from:], limit-room-size)
	if i := bytes.IndexByte(tail.text[from:], '\n') + 1; i < min(maxSlack, (len(tail.text)-from)/2) {
		from += i
	}
	after := e.head.at(len(head))
	text := slices.Clone(head)
	if n := len(text); n > 0 && text[n-1] != '\n' {
		text = append(text, '\n')
	}
	text = append(text, line(Gap{After: after, Bytes: tail.at(from) - after})...)
	return string(append(text, tail.text[from:]...))
}

// Gap describes what Text leaves out.
type Gap struct {
	After int64 // the position where it begins
	Bytes int64
}

// Words returns a line for a gap whose content the reader cannot get.
func (g Gap) Words() string { return shorten.LeftOut(g.Bytes, "bytes", "") }

// stretch is text with its positions.
type stretch struct {
	text  []byte
	jumps []jump // where the next byte is not at the next position; the first one is at the beginning
}

type jump struct {
	offset int
	at     int64
}

func (s *stretch) add(text []byte, at int64) {
	if len(text) == 0 {
		return
	}
	if n := len(s.text); n == 0 || s.at(n) != at {
		s.jumps = append(s.jumps, jump{n, at})
	}
	s.text = append(s.text, text...)
}

// at returns the position of a byte, or the one after the last byte.
func (s *stretch) at(offset int) int64 {
	n := sort.Search(len(s.jumps), func(n int) bool { return s.jumps[n].offset > offset })
	if n == 0 {
		return 0
	}
	j := s.jumps[n-1]
	at := j.at + int64(offset-j.offset)
	if n < len(s.jumps) { // a line that says how often it came may be longer than the lines that it replaces
		at = min(at, s.jumps[n].at)
	}
	return at
}

// each yields the text in pieces without jumps.
func (s *stretch) each(add func(text []byte, at int64)) {
	for n, j := range s.jumps {
		end := len(s.text)
		if n+1 < len(s.jumps) {
			end = s.jumps[n+1].offset
		}
		add(s.text[j.offset:end], j.at)
	}
}

// drop removes the first n bytes.
func (s *stretch) drop(n int) {
	at := s.at(n)
	s.text = s.text[:copy(s.text, s.text[n:])]
	jumps := append(s.jumps[:0:0], jump{0, at})
	for _, j := range s.jumps {
		if j.offset > n {
			jumps = append(jumps, jump{j.offset - n, j.at})
		}
	}
	s.jumps = jumps
}

// fitHead returns the length of the longest beginning of text, in whole characters, whose size is at most
// most, and that size.
func fitHead(text []byte, most int) (n, size int) {
	for n < len(text) {
		w, s := sizeOf(text[n:])
		if size+s > most {
			break
		}
		n += w
		size += s
	}
	return n, size
}

// fitTail returns where the longest end of text begins whose size is at most most.
func fitTail(text []byte, most int) int {
	n := len(text)
	for size := 0; n > 0; {
		_, w := utf8.DecodeLastRune(text[:n])
		_, s := sizeOf(text[n-w:])
		if size += s; size > most {
			break
		}
		n -= w
	}
	return n
}

// sizeOf returns the length of the first character of text in bytes, and its size as encoding/json writes it.
func sizeOf(text []byte) (width, size int) {
	switch b := text[0]; {
	case b == '"' || b == '\\' || b == '\n' || b == '\r' || b == '\t' || b == '\b' || b == '\f':
		return 1, 2
	case b < ' ' || b == '<' || b == '>' || b == '&':
		return 1, 6
	case b < utf8.RuneSelf:
		return 1, 1
	}
	r, w := utf8.DecodeRune(text)
	if r == '\u2028' || r == '\u2029' || r == utf8.RuneError {
		return w, 6
	}
	return w, w
}
