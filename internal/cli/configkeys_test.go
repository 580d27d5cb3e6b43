package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The tables of the manual have the keys of the config's schema, and no others, and name the same defaults.
func TestManualHasTheKeysOfTheSchema(t *testing.T) {
	type object struct {
		Default    any
		Properties map[string]object
	}
	var schema struct {
		object
		Defs map[string]object `json:"$defs"`
	}
	if err := json.Unmarshal([]byte(runCommand(t, "config", "schema").stdout), &schema); err != nil {
		t.Fatal(err)
	}
	top := map[string]object{}
	for name, section := range schema.Properties {
		if name == "tools" || name == "upstreams" { // each entry has a table of its own
			continue
		}
		if len(section.Properties) == 0 {
			top[name] = section
		}
		for key, property := range section.Properties {
			top[name+"."+key] = property
		}
	}
	for _, table := range []struct {
		page, after string
		keys        map[string]object
	}{
		{"config", "## Keys of the file", top},
		{"config", "## Keys of a tool", schema.Defs["tool"].Properties},
		{"upstreams", "# upstreams", schema.Defs["upstream"].Properties},
	} {
		shown := keyTable(t, table.page, table.after)
		if names := slices.Sorted(maps.Keys(table.keys)); !slices.Equal(slices.Sorted(maps.Keys(shown)), names) {
			t.Errorf("%s, %s has\n%q\nand the schema\n%q", table.page, table.after, slices.Sorted(maps.Keys(shown)), names)
		}
		for name, key := range table.keys {
			want := fmt.Sprint(key.Default)
			isConstant := regexp.MustCompile("^`(-?[0-9]|true)").MatchString(shown[name])
			switch {
			case key.Default == nil && isConstant && shown[name] != "`0`":
				t.Errorf("%s: %s has the default %s, and none in the schema", table.page, name, shown[name])
			case key.Default != nil && want != "0" && want != "." && shown[name] != "`"+want+"`":
				t.Errorf("%s: %s has the default %q, in the schema `%s`", table.page, name, shown[name], want)
			case want == "0" && isConstant && shown[name] != "`0`":
				t.Errorf("%s: %s has the default %s, in the schema 0", table.page, name, shown[name])
			}
		}
	}
}

// keyTable returns the keys of the first table after a heading, each with its default. "`a.b`, `c`" are a.b and a.c.
func keyTable(t *testing.T, page, heading string) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../manual/" + page + ".md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), heading+"\n")
	_, rows, headed := strings.Cut(rest, "| key | default | meaning |\n|---|---|---|\n")
	if !found || !headed {
		t.Fatalf("%s.md has no table of keys after %q", page, heading)
	}
	shown := map[string]string{}
	for line := range strings.Lines(rows) {
		if !strings.HasPrefix(line, "| ") {
			break
		}
		cells := strings.SplitN(line, " | ", 3)
		if strings.HasSuffix(cells[0], " |") || len(cells) < 3 { // an empty default: "| `key` | | meaning"
			cells = []string{strings.TrimSuffix(cells[0], " |"), ""}
		}
		names := strings.Split(strings.TrimPrefix(cells[0], "| "), ", ")
		defaults := strings.Split(cells[1], ", ")
		section := ""
		for n, name := range names {
			name = strings.Trim(name, "`")
			if before, _, dotted := strings.Cut(name, "."); dotted {
				section = before + "."
			} else {
				name = section + name
			}
			value := strings.TrimSpace(cells[1])
			if len(defaults) == len(names) {
				value = strings.TrimSpace(defaults[n])
			}
			shown[name] = value
		}
	}
	return shown
}
