package command

import "bytes"

// lineBuffer splits output into lines. A \r without \n ends a line, too, so that a moving progress bar can be
// seen. The last line, and a line longer than maxHeldLine, may be emitted unfinished.
type lineBuffer struct {
	held []byte // the unfinished line
	ends []int
}

// maxHeldLine is the longest line that "output: lines" keeps together, in bytes.
const maxHeldLine = 64 << 10

// add takes the next text. It emits the lines that are complete now, with the positions of their ends.
func (l *lineBuffer) add(text []byte, emit func(text []byte, ends []int)) {
	from := max(len(l.held)-1, 0) // a \r may stand there
	l.held = append(l.held, text...)
	l.ends = l.ends[:0]
	end := 0
	// line by line, so that each search for \r stays within a line.
	for line := range bytes.Lines(l.held[from:]) {
		for n := lineEnd(line); n > 0; n = lineEnd(line) {
			line, from = line[n:], from+n
			end = from
			l.ends = append(l.ends, end)
		}
	}
	if len(l.held)-end > maxHeldLine {
		end = len(l.held)
		l.ends = append(l.ends, end)
	}
	if end > 0 {
		emit(l.held[:end], l.ends)
		l.held = append(l.held[:0], l.held[end:]...)
	}
}

// flush emits the unfinished line.
func (l *lineBuffer) flush(emit func(text []byte, ends []int)) {
	if len(l.held) > 0 {
		emit(l.held, []int{len(l.held)})
	}
}

// lineEnd returns the length of the first line in text, 0 if that line is unfinished. text has no \n except
// at its end. A \r at the very end waits for the next byte.
func lineEnd(text []byte) int {
	if i := bytes.IndexByte(text, '\r') + 1; i > 0 && i < len(text) && text[i] != '\n' {
		return i
	}
	if bytes.HasSuffix(text, []byte("\n")) {
		return len(text)
	}
	return 0
}
