package tasks

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// The first lines of a name are told, and then only a number and the last line.
func TestMatches(t *testing.T) {
	var m Matches
	if m.Message() != "" || m.News(Matches{}) != "" {
		t.Errorf("nothing says %q, %q", m.Message(), m.News(Matches{}))
	}
	for n := range 3 {
		m = m.With("error", fmt.Sprintf("error %d", n), 2)
	}
	one := m
	m = m.IsReady(1200*time.Millisecond, "listening on http://localhost:1/")
	for n := range 214 {
		m = m.With("error", fmt.Sprintf("error %d", 3+n), 2)
	}
	m = m.With("warning", strings.Repeat("é", MaxMatch), 2)

	const ready = "ready after 1.2 s: listening on http://localhost:1/"
	if said := one.Message(); said != "matched error: error 2 (and 2 more)" {
		t.Errorf("the copy of an earlier time says %q", said)
	}
	if said := m.Message(); !strings.HasPrefix(said,
		ready+"; matched error: error 216 (and 216 more); matched warning: é") {
		t.Errorf("the status says %q", said)
	}
	for _, c := range []struct {
		now, before Matches
		want        string
	}{
		{one, Matches{}, "matched error: error 0\nmatched error: error 1\nmatched error: error 2\n"},
		{m, Matches{}, ready + "\nmatched error: error 0\nmatched error: error 1\nmatched error: and 215 more, the last one: error 216\nmatched warning: é"},
		{m, one, ready + "\nmatched error: and 214 more, the last one: error 216\nmatched warning: é"},
		{m, m, ""},
	} {
		if said := c.now.News(c.before); !strings.HasPrefix(said, c.want) || c.want == "" && said != "" {
			t.Errorf("the news are %q, want %q", said, c.want)
		}
	}
	second := Matches{Attempt: 2}.With("error", "of the second attempt", 2)
	if said := second.News(m); said != "matched error: of the second attempt\n" {
		t.Errorf("after an earlier attempt the news are %q", said)
	}
	if line := m.Named[1].Lines[0]; len(line) > MaxMatch || !strings.HasSuffix(line, "…") {
		t.Errorf("a line of %d bytes is kept", len(line))
	}
	var again Matches
	if b, err := json.Marshal(m); err != nil || json.Unmarshal(b, &again) != nil || again.News(m) != "" ||
		m.News(again) != "" {
		t.Errorf("what was stored reads as %+v: %v", again, err)
	}
}
