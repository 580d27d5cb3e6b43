package text

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
)

// Sink takes a text, and words in place of other content. Shaper and Filter implement it.
type Sink interface {
	Write(p []byte) (int, error)     // never fails
	Insert(words string, size int64) // in place of size bytes of the log
	Skip(size int64)                 // size bytes of the log are not shown
	Full() bool                      // what is written now would not be shown
}

// Filter selects lines of a text: those that match, with lines around them, and of these the last ones. Of a
// line that is overwritten with \r, the last state counts.
//
//	Write ─▶ line ─▶ match ─▶ last ─▶ To
type Filter struct {
	To Sink // set before the first Write

	lines assembler

	grep    *regexp.Regexp // nil: all lines match
	context int
	before  lineRing // lines to show before the next match
	after   int      // how many more lines to show after the last match
	skipped bool     // lines were left out since the last match
	picked  bool     // there was a match

	tail int // how many lines to show at the end; 0 = all
	last lineRing
}

// NewFilter makes a filter, nil if neither grep (RE2) nor tail is set. context is the number of lines around
// a match.
func NewFilter(grep string, context, tail float64) (*Filter, error) {
	if grep == "" && tail == 0 {
		return nil, nil
	}
	f := &Filter{lines: assembler{max: maxFilteredLine}, context: int(min(context, maxRing)),
		tail: int(min(tail, maxRing))}
	if grep != "" {
		var err error
		if f.grep, err = CompilePattern(grep); err != nil {
			return nil, fmt.Errorf("grep: %w", err)
		}
	}
	return f, nil
}

// Write implements Sink.
func (f *Filter) Write(p []byte) (int, error) {
	f.lines.write(p, 0, f.take)
	return len(p), nil
}

// Insert implements Sink. The words are a line that may match.
func (f *Filter) Insert(words string, _ int64) {
	f.lines.flush(f.take)
	_, _ = f.Write([]byte(strings.TrimSuffix(words, "\n") + "\n"))
}

// Skip implements Sink. It does nothing, since positions in selected lines mean nothing.
func (f *Filter) Skip(int64) {}

// Full implements Sink.
func (f *Filter) Full() bool { return false }

func (f *Filter) take(line []byte, _ int64, _ bool) {
	f.match(append(bytes.TrimRight(line, "\r\n"), '\n'))
}

func (f *Filter) match(line []byte) {
	switch {
	case f.grep == nil:
		f.pick(line)
	case f.grep.Match(bytes.TrimSuffix(line, []byte("\n"))):
		if f.picked && f.context > 0 && f.skipped {
			f.pick([]byte("--\n"))
		}
		f.before.each(f.pick)
		f.before = lineRing{}
		f.pick(line)
		f.picked = true
		f.skipped = false
		f.after = f.context
	case f.after > 0:
		f.after--
		f.pick(line)
	default:
		if f.before.add(line, f.context) {
			f.skipped = true
		}
	}
}

func (f *Filter) pick(line []byte) {
	if f.tail == 0 {
		_, _ = f.To.Write(line)
	} else {
		f.last.add(line, f.tail)
	}
}

// End ends the text and writes the lines that were held back.
func (f *Filter) End() {
	f.lines.flush(f.take)
	if f.grep != nil && !f.picked {
		f.To.Insert("no line matches", 0)
	}
	f.last.each(func(line []byte) { _, _ = f.To.Write(line) })
}

const (
	maxRing      = 100_000 // lines
	maxRingBytes = 2 << 20
)

// lineRing holds the last lines of a text, at most maxRingBytes.
type lineRing struct {
	lines [][]byte
	size  int
}

// add appends a line, drops the first lines above most, and reports whether it dropped any.
func (r *lineRing) add(line []byte, most int) (dropped bool) {
	r.lines = append(r.lines, bytes.Clone(line))
	r.size += len(line)
	for len(r.lines) > most || r.size > maxRingBytes {
		r.size -= len(r.lines[0])
		r.lines[0] = nil // otherwise the array would keep it in memory
		r.lines = r.lines[1:]
		dropped = true
	}
	return dropped
}

func (r *lineRing) each(f func(line []byte)) {
	for _, line := range r.lines {
		f(line)
	}
}
