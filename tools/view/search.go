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

// A search is bounded in time and in bytes; the page goes on where it ended.
const (
	maxSearchTime  = 2 * time.Second
	maxSearched    = 64 << 20
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
	Position int64  `json:"position"` // where the line begins
	Line     string `json:"line"`
}

type searchAnswer struct {
	Matches []match `json:"matches"`
	Next    *int64  `json:"next,omitempty"` // where to go on; absent: all was searched
	Bytes   int64   `json:"bytes"`
}

// search is view_search. Escape sequences are not part of a line.
func (v *view) search(ctx context.Context, _ *tools.Call, p searchParams) (any, error) {
	pattern, err := regexp.Compile("(?i)" + p.Pattern)
	if err != nil {
		return nil, fmt.Errorf("the pattern is not a regular expression (RE2): %w", err)
	}
	t, err := v.runner.Head(ctx, p.TaskID)
	if err != nil {
		return nil, err
	}
	size := t.Log.Size()
	answer := searchAnswer{Matches: []match{}, Bytes: size}
	most := cmp.Or(p.Max, defaultMatches)
	searched := p.After // the lines before it
	over, deadline := false, time.Now().Add(maxSearchTime)
	expired := func() bool { return ctx.Err() != nil || time.Now().After(deadline) }
	full := func() bool {
		over = over || len(answer.Matches) >= most || searched > p.After && expired()
		return over
	}
	inItem := false // whose lines are found together: a search cannot go on between them
	late := false   // the time was over within a line, or an item
	lines := text.Lines{Take: func(line []byte, at int64) {
		if over || !inItem && full() {
			return
		}
		plain := text.StripANSI(line)
		m := matching{expired: expired}
		found := m.match(pattern, plain)
		if late = m.late || inItem && expired(); late {
			over = true
			return
		}
		searched = at + int64(len(line))
		if found {
			answer.Matches = append(answer.Matches, match{at, shorten.Clip(string(bytes.TrimRight(plain, "\r\n")), maxMatchLine)})
		}
	}}
	pos := p.After
	for pos < size && !over && pos-p.After < maxSearched && ctx.Err() == nil {
		b, next, err := t.Log.ReadAt(ctx, pos, searchPiece)
		if err != nil {
			return nil, err
		}
		at := b.Start
		for _, c := range b.Chunks() {
			if c.Kind == partials.Text {
				lines.Write(c.Data, at)
			} else if said, ok := mcp.TextOf(c.Data); ok {
				lines.End()
				inItem = !full()
				before, found := searched, len(answer.Matches)
				lines.Write([]byte(said), at)
				lines.End()
				if late {
					searched, answer.Matches = before, answer.Matches[:found]
				} else if inItem {
					inItem, searched = false, at+int64(len(c.Data)) // its text is shorter
				}
			}
			at += int64(len(c.Data))
		}
		if next <= pos {
			break
		}
		pos = next
	}
	if pos >= size {
		lines.End()
	}
	if late && searched <= p.After {
		return nil, fmt.Errorf("the pattern takes more than %v for one line: use a simpler one", maxSearchTime)
	}
	if over || pos < size {
		if searched <= p.After {
			searched = pos // there was no line
		}
		answer.Next = &searched
	}
	return answer, nil
}

// atOnce is how long a line may be that is matched in one go, in bytes: one of 64 KiB takes seconds with an expression that is bad enough.
const atOnce = 4 << 10

// matching matches one line, unless the time expires meanwhile: then it is late.
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
