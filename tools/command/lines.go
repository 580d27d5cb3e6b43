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
	returns := bytes.IndexByte(l.held[from:], '\r') >= 0
	for line := range bytes.Lines(l.held[from:]) { // so that a \r is not looked for beyond its line
		for n := lineEnd(line, returns); n > 0; n = lineEnd(line, returns) {
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

// flush gives out the unfinished line.
func (l *lineBuffer) flush(emit func(text []byte, ends []int)) {
	if len(l.held) > 0 {
		emit(l.held, []int{len(l.held)})
	}
}

// lineEnd returns where text ends that has no \n but at its end, or where a \r ends a line in it before that, if there may be any; 0 if it
// is unfinished. A \r at the very end waits for the next byte.
func lineEnd(text []byte, returns bool) int {
	if returns {
		if i := bytes.IndexByte(text, '\r') + 1; i > 0 && i < len(text) && text[i] != '\n' {
			return i
		}
	}
	if bytes.HasSuffix(text, []byte("\n")) {
		return len(text)
	}
	return 0
}
