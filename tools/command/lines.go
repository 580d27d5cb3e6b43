package command

import "bytes"

// lineBuffer finds the lines of what is printed. A \r without \n ends a line too, so that a progress bar
// is seen while it moves. The last line and one longer than maxHeldLine go out unfinished.
type lineBuffer struct {
	held []byte // the unfinished line
	ends []int
}

// maxHeldLine is how long a line may be that "output: lines" keeps together, in bytes.
const maxHeldLine = 64 << 10

// add gives out the lines that text ends, and where they end in what is given out.
func (l *lineBuffer) add(text []byte, emit func(text []byte, ends []int)) {
	from := max(len(l.held)-1, 0) // a \r may stand there
	l.held = append(l.held, text...)
	l.ends = l.ends[:0]
	end := 0
	for n := lineEnd(l.held[from:]); n > 0; n = lineEnd(l.held[end:]) {
		end = from + n
		from = end
		l.ends = append(l.ends, end)
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

// flush gives out the unfinished line.
func (l *lineBuffer) flush(emit func(text []byte, ends []int)) {
	if len(l.held) > 0 {
		emit(l.held, []int{len(l.held)})
	}
}

// lineEnd returns where the first line of text ends, 0 if it does not. A \r at the very end waits for the next byte.
func lineEnd(text []byte) int {
	newline := bytes.IndexByte(text, '\n') + 1
	line := text
	if newline > 0 {
		line = text[:newline]
	}
	switch i := bytes.IndexByte(line, '\r'); { // two IndexByte are much faster than one IndexAny
	case i < 0 || i+2 == newline:
		return newline
	case i+1 == len(text):
		return 0
	default:
		return i + 1
	}
}
