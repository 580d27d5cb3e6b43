package view

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"regexp"
	"time"

	"runnel/internal/shorten"
	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/tools"
	"runnel/tools/text"
)

// These bound a search. The page continues where it has ended.
const (
	maxSearchTime  = 2 * time.Second
	maxSearched    = 64 << 20 // bytes
	searchPiece    = 256 << 10
	defaultMatches = 200
	maxMatches     = 1000
	maxMatchLine   = 500  // bytes of a line that are shown
	maxPattern     = 1000 // characters
)

type searchParams struct {
	TaskID  string `json:"taskId"`
	Pattern string `json:"pattern"`
	After   int64  `json:"after"`
	Max     int    `json:"max"`
}

type match struct {
	Position int64  `json:"position"` // of the beginning of the line
	Line     string `json:"line"`
}

type searchAnswer struct {
	Matches []match `json:"matches"`
	Next    *int64  `json:"next,omitempty"` // where to continue; absent: all was searched
	Bytes   int64   `json:"bytes"`
}

// search implements view_search. Escape sequences are not part of a line.
func (v *view) search(ctx context.Context, _ *tools.Call, p searchParams) (any, error) {
	pattern, err := text.CompilePattern("(?i)" + p.Pattern)
	if err != nil {
		return nil, fmt.Errorf("pattern: %w", err)
	}
	t, err := v.runner.Head(ctx, p.TaskID)
	if err != nil {
		return nil, err
	}
	deadline := time.Now().Add(maxSearchTime)
	s := &searching{
		pattern: pattern, most: cmp.Or(p.Max, defaultMatches), from: p.After, searched: p.After,
		matches: []match{},
		expired: func() bool { return ctx.Err() != nil || time.Now().After(deadline) },
	}
	s.lines.Take = s.line
	size := t.Log.Size()
	pos, err := s.read(ctx, t.Log, size)
	if err != nil {
		return nil, err
	}
	answer := searchAnswer{Matches: s.matches, Bytes: size}
	if s.over || pos < size {
		if s.searched <= p.After {
			s.searched = pos // there was no line
		}
		answer.Next = &s.searched
	}
	return answer, nil
}

// searching is one search in a log.
type searching struct {
	pattern *regexp.Regexp
	most    int   // matches
	from    int64 // where it began
	expired func() bool

	lines    text.Lines
	matches  []match
	searched int64 // all lines before this position were searched
	// The lines are those of an item, which are searched together: no search can continue between them.
	inItem bool
	late   bool // the time was over within a line or an item
	over   bool // nothing more is searched
}

// read searches the log up to size, or until the search is over. It returns the position up to which it has
// read.
func (s *searching) read(ctx context.Context, log *partials.Log, size int64) (pos int64, err error) {
	for pos = s.from; pos < size && !s.over && pos-s.from < maxSearched && ctx.Err() == nil; {
		b, next, err := log.ReadAt(ctx, pos, searchPiece)
		if err != nil {
			return pos, err
		}
		at := b.Start
		for _, c := range b.Chunks() {
			if c.Kind == partials.Text {
				s.lines.Write(c.Data, at)
			} else if said, ok := mcp.TextOf(c.Data); ok {
				s.item(said, at, len(c.Data))
			}
			at += int64(len(c.Data))
		}
		if next <= pos {
			break
		}
		pos = next
	}
	if pos >= size {
		s.lines.End()
	}
	if s.late && s.searched <= s.from {
		return pos, fmt.Errorf("the pattern takes more than %v for one line: use a simpler one",
			maxSearchTime)
	}
	return pos, nil
}

// full reports whether the search ends before the next line. At least one line is searched.
func (s *searching) full() bool {
	s.over = s.over || len(s.matches) >= s.most || s.searched > s.from && s.expired()
	return s.over
}

// line searches one line.
func (s *searching) line(line []byte, at int64) {
	if s.over || !s.inItem && s.full() {
		return
	}
	plain := text.StripANSI(line)
	m := matching{expired: s.expired}
	found := m.match(s.pattern, plain)
	if m.late || s.inItem && s.expired() {
		s.late, s.over = true, true
		return
	}
	s.searched = at + int64(len(line))
	if found {
		s.matches = append(s.matches, match{at,
			shorten.Clip(string(bytes.TrimRight(plain, "\r\n")), maxMatchLine)})
	}
}

// item searches the text of an item, all of it or nothing. size is the item's length in the log, which is
// more than that of its text.
func (s *searching) item(said string, at int64, size int) {
	s.lines.End()
	s.inItem = !s.full()
	before, found := s.searched, len(s.matches)
	s.lines.Write([]byte(said), at)
	s.lines.End()
	if s.late {
		s.searched, s.matches = before, s.matches[:found]
	} else if s.inItem {
		s.inItem, s.searched = false, at+int64(size)
	}
}

// atOnce is the longest line that is matched in one go, in bytes: with a bad enough expression, one of 64 KiB
// takes seconds.
const atOnce = 4 << 10

// matching matches one line. If the time expires meanwhile, it is late.
type matching struct {
	expired func() bool
	rest    bytes.Reader
	read    int
	late    bool
}

func (m *matching) match(pattern *regexp.Regexp, line []byte) bool {
	if len(line) <= atOnce {
		return pattern.Match(line)
	}
	m.rest.Reset(line)
	return pattern.MatchReader(m)
}

// ReadRune implements io.RuneReader.
func (m *matching) ReadRune() (rune, int, error) {
	if m.read++; m.read%128 == 0 && m.expired() {
		m.late = true
		return 0, 0, io.EOF
	}
	return m.rest.ReadRune()
}
