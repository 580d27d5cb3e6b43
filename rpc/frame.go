package rpc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
)

// readSize is what one Read asks for at least: a full Linux pipe.
const readSize = 64 << 10

// errLineTooLong is returned by lineReader.next once for each line above the limit.
var errLineTooLong = errors.New("line too long")

// lineReader splits a stream into lines. It holds at most one line and what came after it in the same Read,
// and nothing of a line above the limit.
type lineReader struct {
	r   io.Reader
	max int // bytes of a line without its newline

	buf        []byte
	start, end int // buf[start:end] is read and not yet given out
	err        error
	begun      bool // the first line has been given out

	// The beginning and the end of the last line that was too long, up to edge bytes each.
	head, tail []byte
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
	scanned := 0 // bytes from start on that hold no newline
	for {
		if i := bytes.IndexByte(l.buf[l.start+scanned:l.end], '\n'); i >= 0 {
			line := l.buf[l.start : l.start+scanned+i]
			l.start += len(line) + 1
			if len(line) > l.max {
				l.head, l.tail = nil, nil
				l.drop(line)
				return nil, errLineTooLong
			}
			return line, nil
		}
		scanned = l.end - l.start
		switch {
		case scanned > l.max:
			l.discard()
			return nil, errLineTooLong
		case l.err != nil && scanned > 0:
			line := l.buf[l.start:l.end]
			l.start = l.end
			return line, nil
		case l.err != nil:
			return nil, l.err
		}
		l.fill()
	}
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

// discard reads on to the end of a line that is too long.
func (l *lineReader) discard() {
	l.head, l.tail = nil, nil
	l.drop(l.buf[l.start:l.end])
	l.buf, l.start, l.end = nil, 0, 0
	for l.err == nil {
		l.fill()
		line, _, ended := bytes.Cut(l.buf[:l.end], []byte{'\n'})
		l.drop(line)
		if ended {
			l.start = len(line) + 1
			return
		}
		l.start, l.end = 0, 0
	}
}

// fill reads once, and adds that to what is there.
func (l *lineReader) fill() {
	if l.start == l.end {
		l.start, l.end = 0, 0
		if len(l.buf) > keepBuffer {
			l.buf = nil
		}
	}
	if len(l.buf)-l.end < readSize/2 {
		pending := l.buf[l.start:l.end]
		// A line that grows doubles its buffer, up to what the limit needs.
		if size := min(2*len(pending), l.max) + readSize; len(l.buf) < size {
			l.buf = make([]byte, size)
		}
		l.start, l.end = 0, copy(l.buf, pending)
	}
	n, err := l.r.Read(l.buf[l.end:])
	l.end += n
	if err != nil && err != io.EOF && err != errLeftBehind { // which says it all
		err = fmt.Errorf("reading messages: %w", err)
	}
	l.err = err
}
