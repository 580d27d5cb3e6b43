package text

import (
	"bytes"

	"runnel/internal/shorten"
)

// assembler splits a text that comes in pieces into lines. Of a line that is overwritten with \r, it keeps
// the last state.
type assembler struct {
	max    int  // a longer line is passed on in parts, which can no longer be overwritten
	frames bool // overwritten lines stay as they are

	line    []byte // the last state of the unfinished line
	at      int64  // the position of its first byte
	returns int    // how many \r came after it; the next byte decides about them
	long    bool   // a part has been passed on
}

// write takes a piece of the text and its position. It calls take with each line; whole: not a part of a
// longer one.
func (l *assembler) write(p []byte, at int64, take func(line []byte, at int64, whole bool)) {
	for line := range bytes.Lines(p) { // line by line, so that each search for \r stays within a line
		for len(line) > 0 {
			n := bytes.IndexByte(line, '\r')
			if n < 0 || l.frames {
				n = len(bytes.TrimSuffix(line, []byte("\n")))
			}
			switch {
			case n > 0:
				if l.returns > 0 {
					if l.long {
						take([]byte("\n"), at-1, false)
					}
					l.line = l.line[:0]
					l.returns = 0
					l.long = false
				}
				if len(l.line) == 0 {
					l.at = at
				}
				n = min(n, l.max-len(l.line))
				if l.line = append(l.line, line[:n]...); len(l.line) == l.max {
					whole := shorten.Whole(l.line)
					take(l.line[:whole:whole], l.at, false)
					l.line = append(l.line[:0], l.line[whole:]...)
					l.at += int64(whole)
					l.long = true
				}
			case line[0] == '\r':
				l.returns++
				n = 1
			default:
				n = 1
				end := "\n"
				if l.returns > 0 {
					end = "\r\n"
				}
				if len(l.line) == 0 {
					l.at = at + 1 - int64(len(end))
				}
				take(append(l.line, end...), l.at, !l.long)
				l.line = l.line[:0]
				l.returns = 0
				l.long = false
			}
			line, at = line[n:], at+int64(n)
		}
	}
}

// Lines passes on the lines of a text that comes in pieces, each with its position and its newline. Of a line
// that is overwritten with \r, it passes on the last state. A line of more than 64 KiB comes in parts. Set
// Take before the first Write.
type Lines struct {
	Take func(line []byte, at int64)

	lines assembler
}

// Write takes a piece of the text and its position.
func (l *Lines) Write(p []byte, at int64) {
	l.lines.max = maxFilteredLine
	l.lines.write(p, at, l.take)
}

// End ends the text and passes on its last line if that has no newline.
func (l *Lines) End() { l.lines.flush(l.take) }

func (l *Lines) take(line []byte, at int64, _ bool) { l.Take(line, at) }

// fresh reports whether the next byte begins a line.
func (l *assembler) fresh() bool { return len(l.line) == 0 && l.returns == 0 && !l.long }

// flush passes on the last line if it has no newline.
func (l *assembler) flush(take func(line []byte, at int64, whole bool)) {
	if len(l.line) > 0 {
		take(l.line, l.at, false)
	}
	l.line = l.line[:0]
	l.returns = 0
	l.long = false
}

// maxFilteredLine is the longest line that is not split, in bytes.
const maxFilteredLine = 64 << 10
