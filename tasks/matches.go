package tasks

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"runnel/internal/shorten"
	"runnel/tools/text"
)

// Matches are what a tool has found in the output of its task: that it is ready, and lines that it watches
// for. They are never changed in place, so that a copy of a Task may be read while its run goes on.
type Matches struct {
	Ready *Ready  `json:"ready,omitempty"` // nil: it is not ready, or a tool that never says so
	Named []Named `json:"named,omitempty"` // in the order of their first matches

	Attempt int `json:"attempt,omitempty"` // Task.Attempt: the next one begins without matches
}

// Ready says when a tool was ready, and by which line of its output.
type Ready struct {
	After time.Duration `json:"after"` // from the start of the tool
	Line  string        `json:"line,omitempty"`
}

// Named are the lines that were found under one name.
type Named struct {
	Name  string   `json:"name"`
	Count int64    `json:"count"`           // of all matches
	Lines []string `json:"lines,omitempty"` // the first ones, as many as the limit of the name
	Last  string   `json:"last,omitempty"`  // the last one
}

// MaxMatch is how much of a line is kept, in bytes.
const MaxMatch = 300

// IsReady returns the matches of a tool that is ready.
func (m Matches) IsReady(after time.Duration, line string) Matches {
	m.Ready = &Ready{After: after, Line: shorten.Clip(line, MaxMatch)}
	return m
}

// With returns the matches with one more line. Of each name, the first limit lines are kept.
func (m Matches) With(name, line string, limit int) Matches {
	line = shorten.Clip(line, MaxMatch)
	i := slices.IndexFunc(m.Named, func(n Named) bool { return n.Name == name })
	if i < 0 {
		i = len(m.Named)
		m.Named = append(slices.Clone(m.Named), Named{Name: name})
	} else {
		m.Named = slices.Clone(m.Named)
	}
	n := &m.Named[i]
	n.Count++
	n.Last = line
	if len(n.Lines) < limit {
		n.Lines = append(n.Lines, line) // beyond what earlier copies read
	}
	return m
}

// of returns the matches of a name.
func (m Matches) of(name string) (n Named) {
	if i := slices.IndexFunc(m.Named, func(n Named) bool { return n.Name == name }); i >= 0 {
		n = m.Named[i]
	}
	return n
}

// Told returns how many lines are kept to be told, of all names.
func (m Matches) Told() (n int) {
	if m.Ready != nil {
		n++
	}
	for _, named := range m.Named {
		n += len(named.Lines)
	}
	return n
}

// Message returns the matches as one line of a status message, "" if there are none.
func (m Matches) Message() string {
	var parts []string
	if m.Ready != nil {
		parts = append(parts, m.Ready.String())
	}
	for _, n := range m.Named {
		part := "matched " + n.Name + ": " + n.Last
		if n.Count > 1 {
			part += fmt.Sprintf(" (and %d more)", n.Count-1)
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, "; ")
}

// String returns when the tool was ready, for people and models.
func (r *Ready) String() string {
	said := "ready after " + text.Seconds(r.After)
	if r.Line != "" {
		said += ": " + r.Line
	}
	return said
}

// News returns a line for each match that is not among those from before, "" if there is none. Of each name,
// it shows the lines that are kept, and then how many more there were.
func (m Matches) News(before Matches) string {
	if m.Attempt != before.Attempt {
		before = Matches{}
	}
	var b strings.Builder
	if m.Ready != nil && before.Ready == nil {
		b.WriteString(m.Ready.String() + "\n")
	}
	for _, n := range m.Named {
		seen := before.of(n.Name).Count
		if n.Count == seen {
			continue
		}
		for _, line := range n.Lines[min(seen, int64(len(n.Lines))):] {
			fmt.Fprintf(&b, "matched %s: %s\n", n.Name, line)
		}
		switch more := n.Count - max(seen, int64(len(n.Lines))); {
		case more == 1:
			fmt.Fprintf(&b, "matched %s: %s\n", n.Name, n.Last)
		case more > 1:
			fmt.Fprintf(&b, "matched %s: and %d more, the last one: %s\n", n.Name, more, n.Last)
		}
	}
	return b.String()
}
