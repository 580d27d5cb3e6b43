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
	rest    []byte // the beginning of a character
	ended   bool

	// The last state of the line that has not ended.
	line    excerpt
	returns int // how many \r came after it; what they mean depends on the next byte

	whole excerpt // all lines while they fit, else none

	// Else.
	joins bool
	held  []byte // the last line
	since int64  // where the run of it began
	count int    // how many of it there were; 0 = there is no line
	out   excerpt
}

// Write takes text.
func (s *Shaper) Write(p []byte) (int, error) {
	s.line.max = s.Limit
	n := len(p)
	at := s.pos() - int64(len(s.rest))
	s.written += int64(n)
	if len(s.rest) > 0 {
		p = append(s.rest, p...)
		s.rest = nil
	}
	if whole := Whole(p); whole < len(p) {
		s.rest = bytes.Clone(p[whole:])
		p = p[:whole]
	}
	for len(p) > 0 {
		end := bytes.IndexByte(p, '\n') + 1
		switch {
		case end == 0 || !s.fresh():
			end = cmp.Or(end, len(p))
			s.add(p[:end], at)
		case s.KeepFrames || bytes.IndexByte(p, '\r') < 0:
			end = bytes.LastIndexByte(p, '\n') + 1
			s.putLines(p[:end], at)
		default:
			if from := lastState(p[:end]); from >= 0 {
				s.put(p[from:end], at+int64(from))
			} else {
				s.add(p[:end], at)
			}
		}
		p, at = p[end:], at+int64(end)
	}
	return n, nil
}

// Insert takes words, a line of their own, that stand for size bytes of what is not text.
func (s *Shaper) Insert(words string, size int64) {
	s.flush()
	if !s.fresh() {
		s.returns = 0
		s.line.add([]byte("\n"), s.pos())
		s.endLine()
	}
	s.put([]byte(strings.TrimSuffix(words, "\n")+"\n"), s.pos())
	s.written += size
}

// Skip lets the position rise by what is not shown.
func (s *Shaper) Skip(size int64) { s.written += size }

// flush takes a character that was never finished.
func (s *Shaper) flush() {
	if len(s.rest) > 0 {
		s.add(s.rest, s.pos()-int64(len(s.rest)))
		s.rest = nil
	}
}

// pos is the position of the next byte.
func (s *Shaper) pos() int64 { return s.From + s.written }

// fresh reports whether a line begins.
func (s *Shaper) fresh() bool { return s.returns == 0 && s.line.size == 0 }

// lastState is where the last state of a whole line begins, -1 where that does not stand in one piece with the line's end.
func lastState(line []byte) int {
	body := bytes.TrimSuffix(line[:len(line)-1], []byte("\r"))
	i := bytes.LastIndexByte(body, '\r') + 1
	if i > 0 && i == len(body) {
		return -1
	}
	return i
}

// add takes some of a line, at most to its end.
func (s *Shaper) add(p []byte, at int64) {
	if s.KeepFrames {
		s.line.add(p, at)
		if p[len(p)-1] == '\n' {
			s.endLine()
		}
		return
	}
	for len(p) > 0 {
		switch n := bytes.IndexAny(p, "\r\n"); {
		case n == 0 && p[0] == '\r':
			for n < len(p) && p[n] == '\r' {
				n++
			}
			s.returns += n
			p, at = p[n:], at+int64(n)
		case n == 0:
			end := "\n"
			if s.returns > 0 {
				end = "\r\n"
			}
			s.returns = 0
			s.line.add([]byte(end), at+1-int64(len(end)))
			s.endLine()
			return
		default:
			if n < 0 {
				n = len(p)
			}
			if s.returns > 0 {
				s.line.reset()
				s.returns = 0
			}
			s.line.add(p[:n], at)
			p, at = p[n:], at+int64(n)
		}
	}
}

// endLine passes the line on.
func (s *Shaper) endLine() {
	if s.line.full {
		s.putLong()
	} else if s.line.size > 0 {
		s.put(s.line.head.text, s.line.head.at(0))
	}
	s.line.reset()
}

// put takes a line that is whole.
func (s *Shaper) put(line []byte, at int64) {
	if !s.joins {
		n, size := fitHead(line, s.Limit-s.whole.size)
		if n == len(line) {
			s.whole.head.add(line, at)
			s.whole.size += size
			return
		}
		s.join()
	}
	if s.count > 0 && bytes.Equal(s.held, line) {
		s.count++
		return
	}
	s.endRun()
	s.held, s.since, s.count = append(s.held[:0], line...), at, 1
}

// putLines takes lines that are whole. Those that differ from the one before, which is nearly all, go on in one piece: one by one
// they took twice as long.
func (s *Shaper) putLines(p []byte, at int64) {
	for len(p) > 0 {
		end := bytes.IndexByte(p, '\n') + 1
		s.put(p[:end], at)
		p, at = p[end:], at+int64(end)
		if !s.joins {
			continue
		}
		last, begin, end := s.held, 0, 0
		for {
			n := bytes.IndexByte(p[end:], '\n') + 1
			if n == 0 || bytes.Equal(last, p[end:end+n]) {
				break
			}
			last, begin, end = p[end:end+n], end, end+n
		}
		if end > 0 {
			s.endRun()
			s.out.add(p[:begin], at)
			s.held, s.since, s.count = append(s.held[:0], last...), at+int64(begin), 1
			p, at = p[end:], at+int64(end)
		}
	}
}

// putLong takes a line that is too long to be whole.
func (s *Shaper) putLong() {
	s.join()
	s.endRun()
	s.out.append(&s.line)
}

// join begins to look for equal lines: the text does not fit.
func (s *Shaper) join() {
	if s.joins {
		return
	}
	s.joins = true
	s.out.max = s.Limit
	at := 0
	for line := range bytes.Lines(s.whole.head.text) {
		s.put(line, s.whole.head.at(at))
		at += len(line)
	}
	s.whole.reset()
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
	if s.ended {
		return
	}
	s.ended = true
	s.flush()
	s.returns = 0
	s.endLine()
	s.endRun()
}

// Size is how much room the text needs, at most Limit.
func (s *Shaper) Size() int {
	s.end()
	if s.joins {
		return s.out.need()
	}
	return s.whole.size
}

// Text is the text if it fits into limit, else its head and tail with a line between them that says what is left out: words, without
// a newline and well below limit. cut says that something is.
func (s *Shaper) Text(limit int, words func(Gap) string) (text string, cut bool) {
	s.end()
	if !s.joins && s.whole.size > limit {
		s.join()
		s.endRun()
	}
	kept := &s.out
	if !s.joins {
		kept = &s.whole
	}
	if !kept.full && kept.size <= limit {
		text = string(kept.head.text)
	} else {
		text, cut = kept.cut(limit, s.pos(), words), true
	}
	return strings.ToValidUTF8(text, "\uFFFD"), cut
}

// Short is a text that fits into limit, which is above some 100 bytes: with its middle left out if it is longer.
func Short(text string, limit int) string {
	s := Shaper{Limit: limit, KeepFrames: true}
	_, _ = s.Write([]byte(text)) // never fails
	short, _ := s.Text(limit, LeftOut)
	return short
}
