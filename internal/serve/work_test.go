package serve

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"runnel/tools/config"
)

// A config that needs workers is refused on a state that has none, with what to do.
func TestWorkersNeedAState(t *testing.T) {
	for text, where := range map[string]string{
		"tools: {build: {runs: builds}}":    "f:1:23: tools.build.runs: workers are found through a state on NATS",
		"fleet: {classes: [builds]}":        "f:1:18: fleet.classes: workers are found through a state on NATS",
		"tools: {build: {command: [date]}}": "",
	} {
		for _, state := range []string{"memory", t.TempDir()} {
			conf, err := config.Parse("f", []byte(text))
			if err != nil {
				t.Fatal(err)
			}
			conf.State.Dir = state
			store, err := (&Setup{}).openState(conf, zerolog.Nop())
			if err == nil {
				_ = store.Close()
			}
			if _, usage := errors.AsType[*UsageError](err); where == "" && err != nil ||
				where != "" && (!usage || !strings.HasPrefix(err.Error(), where) ||
					!strings.Contains(err.Error(), "--state nats://")) {
				t.Errorf("%s: %v", text, err)
			}
		}
	}
}

// An upstream that workers run, and whose tools the config does not list, is named, with what to do.
func TestUnlistedUpstreams(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"upstreams: {x: {command: [date], runs: builds}}":                               "f:1:40: upstreams.x.runs: its tools are not served here: workers of class builds run them (allowed: fleet: {classes: [builds]} lists them; only workers need the upstream)",
		"upstreams: {x: {command: [date], runs: builds}}\nfleet: {classes: [builds]}":   "",
		"upstreams: {x: {command: [date]}}\ntools: {build: {command: [date], runs: b}}": "",
	} {
		conf, err := config.Parse("f", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		(&Setup{}).warnings(conf, zerolog.New(&log))
		if got, _, _ := strings.Cut(conf.Unlisted(), "\n"); got != want || (want == "") != (log.Len() == 0) {
			t.Errorf("%s: %q, %s", text, got, &log)
		}
		if conf.OnWorker(nil); conf.Unlisted() != "" {
			t.Errorf("%s: a worker is warned", text)
		}
	}
}

// A worker has the tools of its classes, and those that name none; they run there.
func TestConfigOnWorker(t *testing.T) {
	const text = "tools: {a: {runs: x, shell: date}, b: {runs: y, shell: date}, c: {shell: date}}"
	for _, c := range []struct{ classes, all, tools, first string }{
		{"", "x y", "a b c", "x"},
		{"y", "y", "b c", "y"},
		{"y x", "y x", "a b c", "y"},
		{"z", "z", "c", "z"},
	} {
		conf, err := config.Parse("f", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		all, of, _ := conf.OnWorker(strings.Fields(c.classes))
		tools := strings.Join(slices.Sorted(maps.Keys(conf.Tools)), " ")
		if got := strings.Join(all, " "); got != c.all || tools != c.tools || of["c"] != c.first ||
			conf.RunsElsewhere() != "" {
			t.Errorf("%q: %q, %q, %v", c.classes, got, tools, of)
		}
	}
}
