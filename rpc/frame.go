package rpc

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
)

// readSize is what the lines that are usual fit into, as does all that a Linux pipe holds.
const readSize = 256 << 10

// errLineTooLong is returned by lineReader.next once for each line above the limit.
var errLineTooLong = errors.New("line too long")

// lineReader splits a stream into lines. It holds at most one line and readSize bytes that come after it, and nothing of a line above the
// limit but its edges.
type lineReader struct {
	r     *bufio.Reader
	max   int    // bytes of a line without its newline
	long  []byte // the line at hand, if it does not fit into r's buffer
	begun bool   // the first line has been given out
	err   error  // why no more come

	// The beginning and the end of the last line that was too long, up to edge bytes each.
	head, tail []byte
}

func newLineReader(r io.Reader, max int) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, readSize), max: max}
}

var bom = []byte("\xef\xbb\xbf")

// next returns the next line that is not blank, without its line end and surrounding blanks.
// It is valid until the next call. A last line needs no newline.
func (l *lineReader) next() ([]byte, error) {
	for {
		line, err := l.line()
		if !l.begun && (err == nil || err == errLineTooLong) {
			// A byte order mark is what some Windows shells put before what they pipe.
			line, l.begun = bytes.TrimPrefix(line, bom), true
		}
		if line = bytes.Trim(line, " \t\r"); err != nil || len(line) > 0 {
			return line, err
		}
	}
}

func (l *lineReader) line() ([]byte, error) {
	if l.long = l.long[:0]; cap(l.long) > keepBuffer {
		l.long = nil
	}
	for l.err == nil {
		line, more := l.read()
		if more || len(l.long) > 0 {
			l.long = append(l.long, line...)
			line = l.long
		}
		switch {
		case len(line) > l.max:
			l.head, l.tail, l.long = nil, nil, nil
			for l.drop(line); more; l.drop(line) {
				line, more = l.read()
			}
			return nil, errLineTooLong
		case !more && (len(line) > 0 || l.err == nil):
			return line, nil
		}
	}
	return nil, l.err
}

// read reads a line or, if there is more of it, as much as fits into the buffer.
func (l *lineReader) read() (piece []byte, more bool) {
	piece, err := l.r.ReadSlice('\n')
	switch err {
	case bufio.ErrBufferFull:
		return piece, true
	case nil:
		return piece[:len(piece)-1], false
	case io.EOF, errLeftBehind: // which say it all
		l.err = err
	default:
		l.err = fmt.Errorf("reading messages: %w", err)
	}
	return piece, false
}

// edge is how much is kept of a line that is too long, at either end: an id, and what stands around it.
const edge = 2 * maxID

// drop keeps the edges of a line that passes by in pieces.
func (l *lineReader) drop(piece []byte) {
	l.head = append(l.head, piece[:min(len(piece), edge-len(l.head))]...)
	l.tail = append(l.tail, piece[max(0, len(piece)-edge):]...)
	l.tail = l.tail[max(0, len(l.tail)-edge):]
}

// longID is the id of a line that was too long, so that the client that waits for its answer gets one; nil if none was found. It is looked
// for where clients write it: before the params, after the method at most, or after them, with nothing but short members behind it.
func (l *lineReader) longID() []byte {
	const id, text = `"id"\s*:\s*("(?:[^"\\]|\\.)*"|-?\d+)\s*`, `"\w+"\s*:\s*"[^"\\]*"\s*`
	first := regexp.MustCompile(`^\s*\{\s*(?:` + text + `,\s*)*` + id + `,`).FindSubmatch(l.head)
	last := regexp.MustCompile(`[\]}"\w]\s*,\s*` + id + `(?:,\s*` + text + `)*\}\s*$`).FindSubmatch(l.tail)
	for _, found := range [][][]byte{first, last} {
		if found != nil && (first == nil || last == nil) && checkID(found[1]) == "" {
			return found[1]
		}
	}
	return nil
}
