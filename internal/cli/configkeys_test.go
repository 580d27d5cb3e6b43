package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"runnel/internal/serve"
	"runnel/tools/config"
)

// The tables of the manual say of each key what the schema says, and have no other keys.
func TestManualHasTheKeysOfTheSchema(t *testing.T) {
	type object struct {
		Description string
		Default     any
		Properties  map[string]object
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
		{"models", "## Keys of a model", schema.Defs["model"].Properties},
		{"upstreams", "# upstreams", schema.Defs["upstream"].Properties},
	} {
		text, err := os.ReadFile("../manual/" + table.page + ".md")
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(text), table.after+"\n")
		_, rest, _ = strings.Cut(rest, "| key | default | meaning |\n|---|---|---|\n")
		rest, _, _ = strings.Cut(rest, "\n\n")
		shown := strings.Split(rest, "\n")
		for name, key := range table.keys {
			value := " "
			if key.Default != nil {
				value = fmt.Sprintf(" `%v` ", key.Default)
			}
			row := fmt.Sprintf("| `%s` |%s| %s |", name, value, key.Description)
			if n := slices.Index(shown, row); n >= 0 {
				shown = slices.Delete(shown, n, n+1)
			} else {
				t.Errorf("%s.md, %s has no row\n%s", table.page, table.after, row)
			}
		}
		if len(shown) > 0 {
			t.Errorf("%s.md, %s has these rows, and the schema has not:\n%s", table.page, table.after,
				strings.Join(shown, "\n"))
		}
	}
}

// Each flag of serve, but for those that say which tools or which config there is, sets a key, and is
// described by the schema alone.
func TestFlagsAreKeys(t *testing.T) {
	i := &invocation{Setup: serve.Setup{Env: environ(t)}}
	i.command(true)
	words := map[string]bool{}
	i.flags.VisitAll(func(f *pflag.Flag) { words[f.Name] = f.Usage != "" })
	for name, own := range words {
		if own != slices.Contains([]string{"config", "tool", "set"}, name) {
			t.Errorf("--%s has words of its own: %t", name, own)
		}
	}
	serve.Describe(i.flags)
	i.flags.VisitAll(func(f *pflag.Flag) {
		if f.Usage == "" || f.DefValue == "false" {
			t.Errorf("--%s: %+v", f.Name, f)
		}
	})
	page, err := os.ReadFile("../manual/environment.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| `--([a-z-]+).*` \\| `([a-zA-Z.]+)` \\|$").
		FindAllStringSubmatch(string(page), -1)
	if len(rows) != len(words)-3 {
		t.Errorf("environment.md has %d flags that set a key, want %d", len(rows), len(words)-3)
	}
	for _, row := range rows {
		f := i.flags.Lookup(row[1])
		if about, _ := config.Describe(row[2]); f == nil ||
			!strings.EqualFold(strings.TrimSuffix(f.Usage, "; repeatable")+".", about) {
			t.Errorf("environment.md: --%s does not set %s", row[1], row[2])
		}
	}
	for key, want := range map[string]string{"limits.maxLine": "16MiB", "http.addr": "",
		"log.level": "info"} {
		if words, value := config.Describe(key); words == "" || value != want {
			t.Errorf("%s: %q, %q", key, words, value)
		}
	}
}
