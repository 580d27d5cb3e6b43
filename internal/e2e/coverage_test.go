package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Every rule that a server can meet has a transcript that shows it (coverage.txt tells the format).
func TestEveryRuleHasATranscript(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "transcripts", "coverage.txt"))
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string][]string{}
	for name, tr := range transcripts(t) {
		for _, id := range tr.covers {
			shown[id] = append(shown[id], name)
		}
	}
	known := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		id, rest, _ := strings.Cut(line, " ")
		who, rule, _ := strings.Cut(strings.TrimSpace(rest), " ")
		switch {
		case known[id]:
			t.Errorf("%s: there are two rows", id)
		case strings.TrimSpace(rule) == "" || !slices.Contains([]string{"server", "client"}, who):
			t.Errorf("%s: a row is an id, server or client, and the rule", id)
		case who == "server" && len(shown[id]) == 0:
			t.Errorf("%s: no transcript covers it: %s", id, rule)
		}
		known[id] = true
	}
	for id, names := range shown {
		if !known[id] {
			t.Errorf("%s covers %s, which coverage.txt does not have", strings.Join(names, ", "), id)
		}
	}
}
