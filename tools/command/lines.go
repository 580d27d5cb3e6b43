package command

import "bytes"

// lineBuffer makes one chunk of each line. A \r without \n ends a line too, so that a progress bar
// is seen while it moves. The last line and one longer than maxHeldLine go out unfinished.
type lineBuffer struct {
	held []byte
	ends []int
}

// maxHeldLine is how long a line may be that "output: lines" keeps together, in bytes.
const maxHeldLine = 64 << 10

func (l *lineBuffer) add(text []byte, emit func(text []byte, ends []int)) {
	if n := len(l.held); n > 0 && l.held[n-1] == '\r' && text[0] != '\n' {
		l.flush(emit)
	}
	newline := bytes.IndexByte(text, '\n') + 1 // where the next one ends, 0 if there is none
	returns := bytes.IndexByte(text, '\r') >= 0
	next := func() []byte {
		end := newline
		if returns {
			end = lineEnd(text, newline)
		}
		line := text[:end]
		text = text[end:]
		if newline > 0 { // else there is none in all of the rest
			if newline -= end; newline == 0 {
				newline = bytes.IndexByte(text, '\n') + 1
			}
		}
		return line
	}
	if len(l.held) > 0 {
		if line := next(); len(line) > 0 {
			l.held = append(l.held, line...)
			l.flush(emit)
		}
	}
	lines, end := text, 0
	l.ends = l.ends[:0]
	for line := next(); len(line) > 0; line = next() {
		end += len(line)
		l.ends = append(l.ends, end)
	}
	if end > 0 {
		emit(lines[:end], l.ends)
	}
	if l.held = append(l.held, text...); len(l.held) > maxHeldLine {
		l.flush(emit)
	}
}

func (l *lineBuffer) flush(emit func(text []byte, ends []int)) {
	if len(l.held) > 0 {
		emit(l.held, nil)
		l.held = l.held[:0]
	}
}

// lineEnd returns where the first line of text ends, 0 if it does not; end is where the first \n ends. A \r at the very end
// waits for the next byte.
func lineEnd(text []byte, end int) int {
	line := text
	if end > 0 {
		line = text[:end]
	}
	// Looked for one by one: IndexByte is ten times as fast as IndexAny.
	i := bytes.IndexByte(line, '\r')
	switch {
	case i < 0 || i+2 == end:
		return end
	case i+1 == len(text):
		return 0
	}
	return i + 1
}
