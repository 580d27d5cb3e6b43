package text

import (
	"bytes"
	"cmp"
	"strconv"
	"strings"
)

// DefaultMaxResult is what most hosts show their model whole, in bytes.
const DefaultMaxResult = 32 << 10

// Shaper shapes a text that is written to it piece by piece. Where the pieces are cut makes no difference. However long the text
// is, it takes memory of some ten times Limit, and 16 bytes for each line that is kept and was shortened.
//
// After Size or Text nothing may be written.
type Shaper struct {
	Limit      int   // the largest size that Text may be asked for
	From       int64 // the position of the first byte
	KeepFrames bool  // lines that were drawn over stay as they are

	written int64
	lines   assembler

	whole   []byte // all of the text while it fits, else nil
	size    int    // of whole
	tooLong bool

	held  []byte // the last line
	since int64  // where the run of it began
	count int    // how many of it there were; 0 = there is no line
	out   excerpt
}

// Write takes text.
func (s *Shaper) Write(p []byte) (int, error) {
	s.lines.max, s.lines.frames, s.out.max = s.Limit, s.KeepFrames, s.Limit
	n := len(p)
	at := s.pos()
	s.written += int64(n)
	for len(p) > 0 {
		end := bytes.LastIndexByte(p, '\n') + 1
		if end > 0 && s.lines.fresh() && (s.KeepFrames || bytes.IndexByte(p[:end], '\r') < 0) { // nearly always: the lines go on in one piece
			s.put(p[:end], at, true)
		} else {
			end = cmp.Or(bytes.IndexByte(p, '\n')+1, len(p))
			s.lines.write(p[:end], at, s.put)
		}
		p, at = p[end:], at+int64(end)
	}
	return n, nil
}

// Insert takes words, a line of their own, that stand for size bytes of what is not text.
func (s *Shaper) Insert(words string, size int64) {
	if !s.lines.fresh() {
		s.lines.returns = 0
		s.lines.write([]byte("\n"), s.pos(), s.put)
	}
	s.put([]byte(strings.TrimSuffix(words, "\n")+"\n"), s.pos(), true)
	s.written += size
}

// Skip lets the position rise by what is not shown.
func (s *Shaper) Skip(size int64) { s.written += size }

// pos is the position of the next byte.
func (s *Shaper) pos() int64 { return s.From + s.written }

// put takes lines that are whole, or a part of a line.
//
// Lines that differ from the one before, which is nearly all, go on in one piece: one by one they took twice as long.
func (s *Shaper) put(p []byte, at int64, whole bool) {
	if !s.tooLong {
		n, size := fitHead(p, s.Limit-s.size)
		s.whole, s.size = append(s.whole, p...), s.size+size
		if s.tooLong = n < len(p); s.tooLong {
			s.whole = nil
		}
	}
	if !whole {
		s.endRun()
		s.out.add(p, at)
		return
	}
	for len(p) > 0 {
		last, begin, end := s.held[:0:0], 0, 0
		if s.count > 0 {
			last = s.held
		}
		for end < len(p) {
			n := bytes.IndexByte(p[end:], '\n') + 1
			if bytes.Equal(last, p[end:end+n]) && n <= s.Limit {
				break
			}
			last, begin, end = p[end:end+n], end, end+n
		}
		if end == 0 {
			s.count++
			end = len(last)
		} else {
			s.endRun()
			if end-begin > s.Limit { // lines as long do not come in one piece, mostly
				begin = end
			}
			s.out.add(p[:begin], at)
			if begin < end {
				s.held, s.since, s.count = append(s.held[:0], p[begin:end]...), at+int64(begin), 1
			}
		}
		p, at = p[end:], at+int64(end)
	}
}

// endRun writes the line that is held, as often as it came or with how often that was.
func (s *Shaper) endRun() {
	switch {
	case s.count >= 3:
		line := bytes.TrimRight(s.held, "\r\n")
		end := s.held[len(line):]
		words := append(strconv.AppendInt([]byte(" ("), int64(s.count), 10), " times)"...)
		s.out.add(append(append(line[:len(line):len(line)], words...), end...), s.since)
	case s.count > 0:
		for range s.count {
			s.out.add(s.held, s.since)
			s.since += int64(len(s.held))
		}
	}
	s.count = 0
}

// end takes what no newline ends.
func (s *Shaper) end() {
	s.lines.end(s.put)
	s.endRun()
}

// Size is how much room the text needs, at most Limit.
func (s *Shaper) Size() int {
	s.end()
	switch {
	case !s.tooLong:
		return s.size
	case s.out.full:
		return s.Limit
	}
	return s.out.size
}

// Text is the text if it fits into limit, else its head and tail with a line between them that says what is left out: words, without
// a newline and well below limit. cut says that something is.
func (s *Shaper) Text(limit int, words func(Gap) string) (text string, cut bool) {
	s.end()
	switch {
	case !s.tooLong && s.size <= limit:
		text = string(s.whole)
	case !s.out.full && s.out.size <= limit:
		text = string(s.out.head.text)
	default:
		text, cut = s.out.cut(limit, s.pos(), words), true
	}
	return strings.ToValidUTF8(text, "\uFFFD"), cut
}

// Short is a text that fits into limit, which is above some 100 bytes: with its middle left out if it is longer.
func Short(text string, limit int) string {
	s := Shaper{Limit: limit, KeepFrames: true}
	_, _ = s.Write([]byte(text)) // never fails
	short, _ := s.Text(limit, Gap.Words)
	return short
}
