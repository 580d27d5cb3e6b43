package main

import (
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// A cell is a character of the screen and how it looks: the parameters of the last SGR sequences, "" for
// plain.
type cell struct {
	char  rune
	style string
}

// screen is as much of a terminal as the script needs.
type screen struct {
	lines       [rows][columns]cell
	row, column int
	style       string
}

// write takes what a program wrote and returns the bytes at its end that are not a whole character or
// sequence yet.
func (s *screen) write(text []byte) (rest []byte) {
	for len(text) > 0 {
		if text[0] == '\x1b' {
			n := s.escape(text)
			if n == 0 {
				return text
			}
			text = text[n:]
			continue
		}
		if !utf8.FullRune(text) {
			return text
		}
		char, n := utf8.DecodeRune(text)
		text = text[n:]
		switch char {
		case '\r':
			s.column = 0
		case '\n':
			s.feed()
		case '\b':
			s.column = max(s.column-1, 0)
		case '\t':
			s.column = min(s.column/8*8+8, columns-1)
		case '\a':
		default:
			if s.column == columns {
				s.column = 0
				s.feed()
			}
			s.lines[s.row][s.column] = cell{char, s.style}
			s.column++
		}
	}
	return nil
}

func (s *screen) feed() {
	if s.row++; s.row == rows {
		s.row--
		copy(s.lines[:], s.lines[1:])
		s.lines[rows-1] = [columns]cell{}
	}
}

// escape handles the sequence at the beginning of text and returns its length, 0 if it is not whole.
func (s *screen) escape(text []byte) int {
	if len(text) < 2 {
		return 0
	}
	if text[1] != '[' {
		return 2
	}
	end := slices.IndexFunc(text[2:], func(b byte) bool { return b >= '@' })
	if end < 0 {
		return 0
	}
	parameters := string(text[2 : 2+end])
	n, _ := strconv.Atoi(parameters)
	step := max(n, 1)
	switch text[2+end] {
	case 'A':
		s.row = max(s.row-step, 0)
	case 'B':
		s.row = min(s.row+step, rows-1)
	case 'C':
		s.column = min(s.column+step, columns-1)
	case 'D':
		s.column = max(s.column-step, 0)
	case 'G':
		s.column = step - 1
	case 'H':
		s.row, s.column = 0, 0
	case 'J':
		clear(s.lines[s.row][s.column:])
		for row := s.row + 1; row < rows; row++ {
			s.lines[row] = [columns]cell{}
		}
	case 'K':
		clear(s.lines[s.row][min(s.column, columns):])
	case 'm':
		if s.style = parameters; parameters == "0" {
			s.style = ""
		}
	}
	return 2 + end + 1
}

// line is a line of the screen without the blanks at its end.
func (s *screen) line(row int) []cell {
	line := s.lines[row][:]
	for len(line) > 0 && (line[len(line)-1].char == 0 || line[len(line)-1].char == ' ') {
		line = line[:len(line)-1]
	}
	return slices.Clone(line)
}

// A stretch is a line of the screen from one moment to another.
type stretch struct {
	row      int
	line     []cell
	from, to time.Duration
}

// recording is what was on the screen, when.
//
// Goroutines: one reads the terminal, until it is closed.
type recording struct {
	mu        sync.Mutex
	began     time.Time
	screen    screen
	current   [rows]stretch
	stretches []stretch // those that are over
	changed   chan struct{}
}

func newRecording() *recording {
	r := &recording{began: time.Now(), changed: make(chan struct{}, 1)}
	for row := range r.current {
		r.current[row].row = row
	}
	return r
}

func (r *recording) read(terminal io.Reader) {
	buffer := make([]byte, 4096)
	var rest []byte
	for {
		n, err := terminal.Read(buffer)
		r.mu.Lock()
		rest = slices.Clone(r.screen.write(append(rest, buffer[:n]...)))
		r.note()
		r.mu.Unlock()
		select {
		case r.changed <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

// note keeps the lines that have changed. mu is held.
func (r *recording) note() {
	now := time.Since(r.began)
	for row := range r.current {
		c := &r.current[row]
		line := r.screen.line(row)
		if slices.Equal(line, c.line) {
			continue
		}
		r.over(c, now)
		*c = stretch{row: row, line: line, from: now}
	}
}

// over keeps a stretch that ends now, if there was something to see.
func (r *recording) over(c *stretch, now time.Duration) {
	if c.to = now; len(c.line) > 0 && c.to > c.from {
		r.stretches = append(r.stretches, *c)
	}
}

// awaitPrompt waits until the shell asks for a command.
func (r *recording) awaitPrompt() error {
	deadline := time.After(most)
	for {
		r.mu.Lock()
		ready := r.screen.column == len(prompt) && plain(r.screen.line(r.screen.row)) == strings.TrimSpace(prompt)
		r.mu.Unlock()
		if ready {
			return nil
		}
		select {
		case <-r.changed:
		case <-deadline:
			return errors.New("the shell shows no prompt")
		}
	}
}

func plain(line []cell) string {
	var b strings.Builder
	for _, c := range line {
		b.WriteRune(max(c.char, ' '))
	}
	return b.String()
}
