package text

import (
	"bytes"
	"cmp"
	"strconv"
	"strings"
)

// DefaultMaxResult is the size of a result, in bytes, that most hosts still show their model whole.
const DefaultMaxResult = 32 << 10

// Shaper shortens a text that is written piece by piece to a size that a model can read. It makes no
// difference where the pieces are cut. However long the text is, it takes memory of some ten times Limit, and
// 16 bytes for each kept line that was shortened.
//
// Nothing may be written after Size or Text.
type Shaper struct {
	Limit      int   // the largest size that Text may be asked for
	From       int64 // the position of the first byte
	KeepFrames bool  // lines that are overwritten with \r stay as they are

	written int64
	lines   assembler

	whole   []byte // the whole text while it fits, otherwise nil
	size    int    // of whole
	tooLong bool

	held  []byte // the last line
	since int64  // where its run began
	last  int64  // where it came last
	count int    // how often it came in a row; 0 = there is no line
	out   excerpt
}

// Write takes the next piece of the text. It never fails.
func (s *Shaper) Write(p []byte) (int, error) {
	s.lines.max = s.Limit
	s.lines.frames = s.KeepFrames
	s.out.max = s.Limit
	n := len(p)
	at := s.pos()
	s.written += int64(n)
	for len(p) > 0 {
		end := bytes.LastIndexByte(p, '\n') + 1
		// Nearly always: whole lines in one piece.
		if end > 0 && s.lines.fresh() && (s.KeepFrames || bytes.IndexByte(p[:end], '\r') < 0) {
			s.put(p[:end], at, true)
		} else {
			end = cmp.Or(bytes.IndexByte(p, '\n')+1, len(p))
			s.lines.write(p[:end], at, s.put)
		}
		p, at = p[end:], at+int64(end)
	}
	return n, nil
}

// Insert implements Sink. The words become a separate line.
func (s *Shaper) Insert(words string, size int64) {
	if !s.lines.fresh() {
		s.lines.returns = 0
		s.lines.write([]byte("\n"), s.pos(), s.put)
	}
	s.put([]byte(strings.TrimSuffix(words, "\n")+"\n"), s.pos(), true)
	s.written += size
}

// Skip implements Sink: it advances the position.
func (s *Shaper) Skip(size int64) { s.written += size }

// SkipTo advances the position to at, if that is further.
func (s *Shaper) SkipTo(at int64) { s.written += max(at-s.pos(), 0) }

// pos returns the position of the next byte.
func (s *Shaper) pos() int64 { return s.From + s.written }

// put takes whole lines, or a part of a line.
//
// Lines that differ from the one before are passed on in one piece: one by one, it took twice as long.
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
		last := s.held[:0:0]
		begin := 0
		end := 0
		if s.count > 0 {
			last = s.held
		}
		for end < len(p) {
			n := bytes.IndexByte(p[end:], '\n') + 1
			if bytes.Equal(last, p[end:end+n]) && n <= s.Limit {
				break
			}
			last = p[end : end+n]
			begin = end
			end += n
		}
		if end == 0 {
			s.count++
			s.last = at
			end = len(last)
		} else {
			s.endRun()
			if end-begin > s.Limit { // lines of that length mostly come in parts
				begin = end
			}
			s.out.add(p[:begin], at)
			if begin < end {
				s.held = append(s.held[:0], p[begin:end]...)
				s.since = at + int64(begin)
				s.last = s.since
				s.count = 1
			}
		}
		p, at = p[end:], at+int64(end)
	}
}

// endRun writes the held line: as often as it came, or once with the number.
func (s *Shaper) endRun() {
	switch {
	case s.count >= 3:
		line := bytes.TrimRight(s.held, "\r\n")
		end := s.held[len(line):]
		words := append(strconv.AppendInt([]byte(" ("), int64(s.count), 10), " times)"...)
		s.out.add(append(append(line[:len(line):len(line)], words...), end...), s.since)
	case s.count > 0:
		s.out.add(s.held, s.since)
		if s.count == 2 {
			s.out.add(s.held, s.last)
		}
	}
	s.count = 0
}

// flush ends the text.
func (s *Shaper) flush() {
	s.lines.flush(s.put)
	s.endRun()
}

// Size returns the size that the text needs, at most Limit.
func (s *Shaper) Size() int {
	s.flush()
	switch {
	case !s.tooLong:
		return s.size
	case s.out.full:
		return s.Limit
	}
	return s.out.size
}

// Text returns the text if its size is at most limit. Otherwise it returns head and tail with a line of words
// between them, which must be much shorter than limit and have no newline. cut reports whether something is
// left out.
func (s *Shaper) Text(limit int, words func(Gap) string) (text string, cut bool) {
	s.flush()
	switch {
	case !s.tooLong && s.size <= limit:
		text = string(s.whole)
	case !s.out.full && s.out.size <= limit:
		text = string(s.out.head.text)
	default:
		text, cut = s.out.cut(limit, s.pos(), words), true
	}
	return valid(text), cut
}

func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// Full implements Sink: the end is shown.
func (s *Shaper) Full() bool { return false }

// Short returns a text with a size of at most limit, which must be above some 100 bytes: a longer text loses
// its middle.
func Short(text string, limit int) string {
	s := Shaper{Limit: limit, KeepFrames: true}
	_, _ = s.Write([]byte(text)) // never fails
	short, _ := s.Text(limit, Gap.Words)
	return short
}
