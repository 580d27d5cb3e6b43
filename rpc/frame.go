package rpc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
)

// readSize holds any usual line, and everything that a Linux pipe holds.
const readSize = 256 << 10

// errLineTooLong is returned by lineReader.next once for each line over the limit, with the line's id if one
// was found.
var errLineTooLong = errors.New("line too long")

// errHeldOpen ends the lines of a server that has exited (see childOutput).
var errHeldOpen = errors.New("the server has ended, but a process that it started holds its output open")

// lineReader splits a stream into lines. It holds at most one line and readSize bytes after it; of a line
// over the limit, only the edges.
type lineReader struct {
	r     io.Reader
	max   int    // bytes of a line without its newline
	buf   []byte // what has been read, from a line's beginning if that was long
	at    int    // where the next line begins in buf
	room  int    // how long the last line was for which buf had to grow: the next one is likely as long
	begun bool   // the first line has been returned
	err   error  // the reason why no more bytes come

	// The beginning and the end of the last line that was too long, up to edge bytes each.
	head, tail []byte
}

func newLineReader(r io.Reader, max int) *lineReader {
	return &lineReader{r: r, max: max, buf: make([]byte, 0, readSize)}
}

var bom = []byte("\xef\xbb\xbf")

// next returns the next line that is not blank, without its newline and surrounding blanks. The line is valid
// until the next call or, if it is longer than keepBuffer, for ever; then its memory is at most twice as
// long. The last line needs no newline.
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
	if cap(l.buf) > keepBuffer { // its memory belongs to the last line
		l.buf, l.at = append(make([]byte, 0, readSize), l.buf[l.at:]...), 0
	}
	for seen := 0; ; l.fill() {
		line, ended := l.piece(seen)
		switch seen = len(line); {
		case len(line) > l.max:
			return l.skip(line, ended), errLineTooLong
		case ended, l.err != nil && len(line) > 0:
			l.at += min(len(line)+1, len(l.buf)-l.at)
			if cap(l.buf) > keepBuffer {
				if l.room = len(line) + readSize; len(line) < cap(l.buf)/2 {
					line = bytes.Clone(line)
				}
			}
			return line, nil
		case l.err != nil:
			return nil, l.err
		}
	}
}

// piece returns what has been read of the current line, and reports whether it ends there. The first seen
// bytes have no newline.
func (l *lineReader) piece(seen int) (line []byte, ended bool) {
	line = l.buf[l.at:]
	if n := bytes.IndexByte(line[seen:], '\n'); n >= 0 {
		return line[:seen+n], true
	}
	return line, false
}

// fill reads more of the current line. It reads into the line's own memory: a copy of 7 MiB takes longer than
// all checks of it.
func (l *lineReader) fill() {
	if l.at > 0 {
		l.buf, l.at = append(l.buf[:0], l.buf[l.at:]...), 0
	}
	if len(l.buf) == cap(l.buf) {
		l.buf = append(make([]byte, 0, min(max(2*cap(l.buf), l.room), l.max+readSize)), l.buf...)
	}
	n, err := l.r.Read(l.buf[len(l.buf):min(cap(l.buf), len(l.buf)+readSize)])
	l.buf = l.buf[:len(l.buf)+n]
	switch err {
	case nil, io.EOF, errHeldOpen: // these explain themselves
		l.err = err
	default:
		l.err = fmt.Errorf("reading messages: %w", err)
	}
}

// skip drops a line that is too long, of which line has been read, and returns its id if one is found.
func (l *lineReader) skip(line []byte, ended bool) (id []byte) {
	l.head, l.tail = nil, nil
	for {
		l.drop(line)
		if l.at += len(line); ended {
			l.at++
		}
		if ended || l.err != nil {
			return findID(l.head, l.tail)
		}
		l.fill()
		line, ended = l.piece(0)
	}
}

// edge is how many bytes are kept of either end of a line that is too long: enough for an id and what
// surrounds it.
const edge = 2 * maxID

// drop keeps the edges of a line that arrives in pieces.
func (l *lineReader) drop(piece []byte) {
	l.head = append(l.head, piece[:min(len(piece), edge-len(l.head))]...)
	l.tail = append(l.tail, piece[max(0, len(piece)-edge):]...)
	l.tail = l.tail[max(0, len(l.tail)-edge):]
}

// findID is the id of a line of which only the edges can be read, so that its request gets an answer; nil if
// none was found. It looks where the id is written: before the params or the result, at most after the
// method, or after them with only short members following.
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
