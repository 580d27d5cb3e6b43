// Package sse reads streams of events, and of lines, as servers of MCP and of language models send them
// (https://html.spec.whatwg.org/multipage/server-sent-events.html).
package sse

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"
	"time"
)

// Event is an event of a stream (https://html.spec.whatwg.org/multipage/server-sent-events.html).
type Event struct {
	Name, ID string
	Data     []byte        // its lines, joined by newlines; nil = it has none
	Retry    time.Duration // how long to wait before connecting again; negative = not given
}

// ErrTooLong is returned by Read for an event that is longer than it may be.
var ErrTooLong = errors.New("an event is too long")

// Read calls hand with each complete event of a stream, whose data has at most so many bytes. It returns nil
// at the end of the stream, the reason why it was lost, or the error of hand. An event that is cut off does
// not count. A stream of long events is read faster through a *bufio.Reader with a large buffer.
func Read(stream io.Reader, most int, hand func(Event) error) error {
	in := bufio.NewReader(stream)
	next := Event{Retry: -1}
	for begun := false; ; begun = true {
		line, err := readLine(in, most)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if !begun {
			line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
		}
		if len(line) == 0 {
			if err := hand(next); err != nil {
				return err
			}
			next = Event{Retry: -1}
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "event":
			next.Name = string(value)
		case "id":
			if bytes.IndexByte(value, 0) < 0 {
				next.ID = string(value)
			}
		case "retry":
			if ms, err := strconv.ParseUint(string(value), 10, 31); err == nil {
				next.Retry = time.Duration(ms) * time.Millisecond
			}
		case "data":
			if len(next.Data)+len(value) > most {
				return ErrTooLong
			}
			if next.Data != nil {
				next.Data = append(next.Data, '\n')
			}
			next.Data = append(next.Data, value...)
		}
	}
}

// Lines calls hand with each line of a stream, of at most so many bytes, as servers send JSON that comes line
// by line. It returns as Read does; a line without an end was cut off, and does not count.
func Lines(stream io.Reader, most int, hand func(line []byte) error) error {
	in := bufio.NewReader(stream)
	for {
		line, err := readLine(in, most)
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = hand(line)
		}
		if err != nil {
			return err
		}
	}
}

// readLine reads a line. A line without an end does not count.
func readLine(in *bufio.Reader, most int) ([]byte, error) {
	var long []byte
	for {
		piece, err := in.ReadSlice('\n')
		if len(long)+len(piece) > most+len("data: \r\n") {
			return nil, ErrTooLong
		}
		switch {
		case err == bufio.ErrBufferFull:
			long = append(long, piece...)
			continue
		case err != nil:
			return nil, err
		case long != nil:
			piece = append(long, piece...)
		}
		return bytes.TrimSuffix(piece[:len(piece)-1], []byte("\r")), nil
	}
}
