// Cast draws terminal sessions as an SVG that moves, side by side: cast -o FILE TITLE=SESSION...
//
// A SESSION is a file of lines, [seconds, "screen"]: what a terminal showed from that moment on, with its
// colours as escape sequences. TestRecord of testdata/hosts records such sessions with tmux.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"slices"
	"strings"
	"time"
)

func main() {
	out := flag.String("o", "session.svg", "the `FILE` to write")
	length := flag.Duration("length", 12*time.Second, "how `long` the sessions last: they are played faster")
	flag.Parse()
	log.SetFlags(0)
	log.SetPrefix("cast: ")
	var sessions []session
	for _, arg := range flag.Args() {
		title, file, ok := strings.Cut(arg, "=")
		if !ok {
			log.Fatalf("%q is not TITLE=SESSION", arg)
		}
		s, err := read(file)
		if err != nil {
			log.Fatal(err)
		}
		s.title = title
		sessions = append(sessions, s)
	}
	if len(sessions) == 0 {
		log.Fatal("which sessions? cast -o FILE TITLE=SESSION...")
	}
	if err := os.WriteFile(*out, []byte(draw(sessions, *length)), 0o644); err != nil {
		log.Fatal(err)
	}
}

// A stretch is a line of the screen from one second to another.
type stretch struct {
	row      int
	line     []cell
	from, to float64
}

// session is what a terminal showed, when.
type session struct {
	title     string
	rows      int
	columns   int
	seconds   float64
	stretches []stretch
}

func read(file string) (s session, err error) {
	f, err := os.Open(file)
	if err != nil {
		return s, err
	}
	defer func() { _ = f.Close() }()

	var current []stretch // what the screen shows, by row
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var shown string
		if err := json.Unmarshal(lines.Bytes(), &[]any{&s.seconds, &shown}); err != nil {
			return s, fmt.Errorf("%s: %w", file, err)
		}
		screen := parse(shown)
		s.rows = max(s.rows, len(screen))
		for row, line := range screen {
			s.columns = max(s.columns, len(line))
			if row == len(current) {
				current = append(current, stretch{row: row})
			}
			if c := &current[row]; !slices.Equal(line, c.line) {
				c.to = s.seconds
				s.stretches = append(s.stretches, *c)
				*c = stretch{row: row, line: line, from: s.seconds}
			}
		}
	}
	for _, c := range current {
		c.to = forever
		s.stretches = append(s.stretches, c)
	}
	s.stretches = slices.DeleteFunc(s.stretches, func(c stretch) bool { return len(c.line) == 0 })
	return s, lines.Err()
}
