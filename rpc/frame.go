package rpc

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
)

// readSize holds any usual line, and everything that a Linux pipe holds.
const readSize = 256 << 10

// errLineTooLong is returned by lineReader.next once for each line over the limit, with the line's id if one was found.
var errLineTooLong = errors.New("line too long")

// lineReader splits a stream into lines. It holds at most one line and readSize bytes after it; of a line over the limit, only the edges.
type lineReader struct {
	r     *bufio.Reader
	max   int    // bytes of a line without its newline
	long  []byte // the current line, if it does not fit into r's buffer
	begun bool   // the first line has been returned
	err   error  // the reason why no more lines come

	// The beginning and the end of the last line that was too long, up to edge bytes each.
	head, tail []byte
}

func newLineReader(r io.Reader, max int) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, readSize), max: max}
}

var bom = []byte("\xef\xbb\xbf")

// next returns the next line that is not blank, without its newline and surrounding blanks. The line is valid until the next call. The last
// line needs no newline.
func (l *lineReader) next() ([]byte, error) {
	for {
		line, err := l.line()
		if !l.begun && (err == nil || err == errLineTooLong) {
			// Some Windows shells put a byte order mark before what they pipe.
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
			if cap(l.long)-len(l.long) < len(line) { // append would grow it by a quarter, and copy a long line six times
				l.long = slices.Grow(l.long, max(len(line), min(len(l.long), l.max-len(l.long))))
			}
			l.long = append(l.long, line...)
			line = l.long
		}
		switch {
		case len(line) > l.max:
			l.head, l.tail, l.long = nil, nil, nil
			for l.drop(line); more; l.drop(line) {
				line, more = l.read()
			}
			return findID(l.head, l.tail), errLineTooLong
		case !more && (len(line) > 0 || l.err == nil):
			return line, nil
		}
	}
	return nil, l.err
}

// read reads a line or, if the line is longer, as much of it as fits into the buffer.
func (l *lineReader) read() (piece []byte, more bool) {
	piece, err := l.r.ReadSlice('\n')
	switch err {
	case bufio.ErrBufferFull:
		return piece, true
	case nil:
		return piece[:len(piece)-1], false
	case io.EOF, errHeldOpen: // these explain themselves
		l.err = err
	default:
		l.err = fmt.Errorf("reading messages: %w", err)
	}
	return piece, false
}

// edge is how many bytes are kept of either end of a line that is too long: enough for an id and what surrounds it.
const edge = 2 * maxID

// drop keeps the edges of a line that arrives in pieces.
func (l *lineReader) drop(piece []byte) {
	l.head = append(l.head, piece[:min(len(piece), edge-len(l.head))]...)
	l.tail = append(l.tail, piece[max(0, len(piece)-edge):]...)
	l.tail = l.tail[max(0, len(l.tail)-edge):]
}

// findID is the id of a line of which only the edges can be read, so that its request gets an answer; nil if none was found. It looks where the
// id is written: before the params or the result, at most after the method, or after them with only short members following.
func findID(head, tail []byte) []byte {
	const id, text = `"id"\s*:\s*("(?:[^"\\]|\\.)*"|-?\d+)\s*`, `"\w+"\s*:\s*"[^"\\]*"\s*`
	first := regexp.MustCompile(`^\s*\{\s*(?:` + text + `,\s*)*` + id + `,`).FindSubmatch(head)
	last := regexp.MustCompile(`[\]}"\w]\s*,\s*` + id + `(?:,\s*` + text + `)*\}\s*$`).FindSubmatch(tail)
	for _, found := range [][][]byte{first, last} {
		if found != nil && (first == nil || last == nil) && checkID(found[1]) == "" {
			return found[1]
		}
	}
	return nil
}
