package rpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"sync"
	"time"

	"runnel/internal/system"
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

// input is what a session reads. After a long write the output wakes its reader (see pipeOutput): the runtime
// only polls for input when a processor is idle, which is rare while a task streams flat out, and pings spent
// most of their time unnoticed. Without the nudge, a ping beside a flood takes a third longer, and the
// slowest hundredth half as long again (450 µs, then 680).
type input struct {
	io.Reader
	file *os.File // nil if the runtime does not poll the reader

	mu    sync.Mutex
	ended bool // interrupted: its deadline stays
}

func newInput(r io.Reader) *input {
	in := &input{Reader: r}
	if file, ok := r.(*os.File); ok && file.SetReadDeadline(time.Time{}) == nil {
		in.file = file
	}
	return in
}

// Read implements io.Reader. It continues after a nudge.
func (in *input) Read(p []byte) (n int, err error) {
	n, err = in.Reader.Read(p)
	for errors.Is(err, os.ErrDeadlineExceeded) && in.wait(time.Time{}) {
		n, err = in.Reader.Read(p)
	}
	return n, err
}

// wake makes a waiting Read look again if there is something to read: it sets a deadline that has passed,
// which is the only way.
func (in *input) wake() bool {
	if in.file == nil {
		return false
	}
	return system.Readable(in.file) && in.wait(time.Unix(0, 1))
}

// wait sets the deadline of a Read, and reports false if the input was interrupted or has no deadlines.
func (in *input) wait(until time.Time) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.file != nil && !in.ended && in.file.SetReadDeadline(until) == nil
}

// interrupt makes this Read and every later one return, if possible.
func (in *input) interrupt() bool {
	in.mu.Lock()
	in.ended = true
	in.mu.Unlock()
	return interrupt(in.Reader)
}

// interrupt makes a waiting Read or Write return, and reports false if that is impossible.
func interrupt(pipe any) bool {
	var err error
	switch p := pipe.(type) {
	case interface{ SetDeadline(time.Time) error }:
		// An os.File that the runtime does not poll (a terminal, an inherited pipe) has no deadlines, and
		// closing it would not end the Read or Write either.
		err = p.SetDeadline(time.Now())
	case io.Closer:
		err = p.Close()
	default:
		return false
	}
	return err == nil
}

// pipeOutput is the output of a session on two pipes. After each long write it wakes the reader of in, if
// there is something to read.
type pipeOutput struct {
	io.Writer
	in *input // nil: no reader has to be woken
}

func (p pipeOutput) WriteLines(_ context.Context, lines []byte, _ bool) error {
	if len(lines) == 0 {
		return nil
	}
	_, err := p.Write(lines)
	if p.in != nil && len(lines) >= laneRoom && p.in.wake() {
		runtime.Gosched() // the reader goes first
	}
	return err
}
