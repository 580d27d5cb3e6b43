package clients_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"runnel/internal/clients"
	"runnel/tools/text"
)

func TestFind(t *testing.T) {
	for _, c := range []struct {
		name, version, title, since string
	}{
		{"claude-code", "2.1.197", "Claude Code", ""},
		{"claude-code", "2.1.330", "Claude Code", "2.1.330"},
		{"claude-code", "3", "Claude Code", "2.1.330"},
		{"claude-code", "", "Claude Code", ""},
		{"qwen-cli-mcp-client-runnel", "0.0.1", "Qwen Code", ""},
		{"codex-mcp-client", "nightly", "Codex", ""},
		{"claude-codex", "2.1.330", "", ""},
		{"", "", "", ""},
	} {
		if got := clients.Find(c.name, c.version); got.Title != c.title || got.Since != c.since {
			t.Errorf("%q %q: %q since %q", c.name, c.version, got.Title, got.Since)
		}
	}
	if got := clients.OfHost("claude-code"); got.Since != "2.1.330" {
		t.Errorf("the newest is %+v", got)
	}
}

// What runnel shows fits in what the client shows, and a client that gives up gets a hand-over before.
func TestTableFits(t *testing.T) {
	for _, c := range clients.Table {
		shows := c.MaxResult
		if shows == 0 {
			shows = text.DefaultMaxResult
		}
		failure := c.MaxError
		if failure == 0 {
			failure = shows
		}
		switch {
		case c.Name == "" || c.Title == "" || c.Source == "":
			t.Errorf("%+v: a row has a name, a title and a source", c)
		case c.Text > 0 && shows > c.Text, c.Error > 0 && failure > c.Error:
			t.Errorf("%s: runnel shows %d bytes, of an error %d", c.Title, shows, failure)
		case c.GivesUp > 0 && c.SyncWait >= c.GivesUp:
			t.Errorf("%s gives up after %v, before it is handed the call over", c.Title, c.GivesUp)
		}
	}
}

// The manual shows the table.
func TestManual(t *testing.T) {
	page, err := os.ReadFile("../../internal/manual/hosts.md")
	if err != nil {
		t.Fatal(err)
	}
	size := func(n int) string {
		switch {
		case n == 0:
			return "–"
		case n%1024 == 0:
			return strconv.Itoa(n/1024) + " KiB"
		}
		return strconv.Itoa(n/1000) + " kB"
	}
	var table strings.Builder
	table.WriteString("| client | its `clientInfo.name` | shows its model of a text | of an error | gives up on a silent call after | runs tasks in the background, defers tools | defaults here | known from |\n|---|---|---|---|---|---|---|---|\n")
	for _, c := range clients.Table {
		title := c.Title
		if c.Since != "" {
			title += " from " + c.Since
		}
		failure := size(c.Error)
		if c.Flattens {
			failure += ", of a task without newlines"
		}
		silence := "–"
		if c.GivesUp > 0 {
			silence = strconv.Itoa(int(c.GivesUp.Seconds())) + " s"
		}
		if c.ProgressHelps {
			silence += ", progress resets it"
		}
		yes := map[bool]string{true: "yes", false: "no"}
		defaults := c.Defaults()
		if defaults == "" {
			defaults = "the general ones"
		}
		fmt.Fprintf(&table, "| %s | `%s` | %s | %s | %s | %s, %s | %s | %s |\n", title, c.Name, size(c.Text),
			failure, silence, yes[c.Backgrounds], yes[c.Defers], defaults, c.Source)
	}
	if !strings.Contains(string(page), table.String()) {
		t.Errorf("internal/manual/hosts.md lacks this table:\n%s", table.String())
	}
}
