package command

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"runnel/partials"
	"runnel/tools"
	"runnel/tools/config"
)

// newWatched returns a tool's record of one run, and what its watcher has found so far.
func newWatched(t *testing.T, conf config.Command) (*record, *[]string) {
	t.Helper()
	conf.Command = []string{"x"}
	c, err := New("t", conf, config.Base{})
	if err != nil {
		t.Fatal(err)
	}
	found := &[]string{}
	w := newWatcher(&c.config, &tools.Call{})
	w.matched = func(name, line string, limit int) {
		*found = append(*found, fmt.Sprintf("%s of %d: %s", name, limit, line))
	}
	w.isReady = func(after time.Duration, line string) {
		*found = append(*found, fmt.Sprintf("ready after %v: %s", after, line))
	}
	return newRecord(t.Context(), &c.config, tools.NewOutput(t.Context(), partials.NewLog(nil), nil),
		32<<10, w), found
}

// Each line counts once for each pattern, however it comes: whole, in pieces, as a prompt without an end.
func TestWatcherCountsLinesOnce(t *testing.T) {
	conf := config.Command{Ready: `listening on (\S+)|> $`,
		Watch: []config.Watch{{Match: "ERROR", As: "error", Limit: new(2)}, {Match: "^W"}}}
	for _, c := range []struct {
		name   string
		output []string // a second apart
		want   []string
	}{
		{"lines", []string{"a\nERROR ERROR 1\nW ERROR\n", "ERROR 3\n"},
			[]string{"error of 2: ERROR ERROR 1", "error of 2: W ERROR", "^W of 5: W ERROR",
				"error of 2: ERROR 3"}},
		{"a line that comes slowly", []string{"ERR", "OR a", " b", "\nERROR c"},
			[]string{"error of 2: ERROR a", "error of 2: ERROR c"}},
		{"a prompt", []string{"name> ", "x\n> "}, []string{"ready after 100ms: name>"}},
		{"a prompt at the end", []string{"a\n> "}, []string{"ready after 100ms: >"}},
		{"a bar", []string{"\r1 ERROR\r2 ERROR", "\r3\n"},
			[]string{"error of 2: 1 ERROR", "error of 2: 2 ERROR"}},
		{"colours", []string{"\x1b[31mERR\x1b[1mOR\x1b[0m\n"}, []string{"error of 2: ERROR"}},
		{"once", []string{"listening on :1\nlistening on :2\n"}, []string{"ready after 0s: listening on :1"}},
		{"a long line", []string{strings.Repeat("x", maxWatchedLine-5) + "ERROR\n" +
			strings.Repeat("x", maxWatchedLine) + "ERROR\n"},
			[]string{"error of 2: " + strings.Repeat("x", maxWatchedLine-5) + "ERROR"}},
		{"nothing", []string{"", "\n\n", "a"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for range 2 {
					r, found := newWatched(t, conf)
					for _, output := range c.output {
						_, _ = r.stdout.Write([]byte(output))
						time.Sleep(time.Second)
					}
					r.stdout.finish()
					r.stderr.finish()
					if !slices.Equal(*found, c.want) {
						t.Errorf("found %q, want %q", *found, c.want)
					}
				}
			})
		})
	}
}

// A line that is only read when the command has ended is no reason to answer that it goes on.
func TestNotReadyAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 2 {
			r, found := newWatched(t, config.Command{Ready: "> $"})
			_, _ = r.stdout.Write([]byte("name> "))
			r.stdout.finish()
			r.stderr.finish()
			if len(*found) > 0 || !r.watcher.ready {
				t.Errorf("found %q, ready %v", *found, r.watcher.ready)
			}
		}
	})
}

// A line that was read in two halves is searched when it is whole: the first half of a URL is no URL.
func TestWatcherWaitsForTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, found := newWatched(t, config.Command{Ready: `on (\S+)`})
		_, _ = r.stdout.Write([]byte("listening on http://local"))
		time.Sleep(settleTime / 2)
		_, _ = r.stderr.Write([]byte("other"))
		time.Sleep(settleTime/2 - 1)
		if len(*found) > 0 {
			t.Errorf("found %q", *found)
		}
		_, _ = r.stdout.Write([]byte("host:1/\n"))
		if want := []string{"ready after 99.999999ms: listening on http://localhost:1/"}; !slices.Equal(*found, want) {
			t.Errorf("found %q", *found)
		}
		r.stdout.finish()
		r.stderr.finish()
	})
}

// A tool that watches for nothing has nothing of this.
func TestNothingIsWatched(t *testing.T) {
	c, err := New("t", config.Command{Command: []string{"x"}}, config.Base{})
	if err != nil {
		t.Fatal(err)
	}
	if w := newWatcher(&c.config, &tools.Call{}); w != nil {
		t.Errorf("%+v", w)
	}
}

// How long a fast log is watched, beside the 3 ns a byte of its way: no line matches, few do, each does.
func BenchmarkWatcher(b *testing.B) {
	line := "main.go:123: the quick brown fox jumps over the lazy dog, and \"nobody\" minds it\n"
	for _, log := range []struct{ name, text string }{
		{"none", line}, {"rare", "ERROR 1\n" + strings.Repeat(line, 400)}, {"each", "ERROR " + line},
	} {
		b.Run(log.name, func(b *testing.B) {
			text := []byte(strings.Repeat(log.text, max(1, (32<<10)/len(log.text))))
			conf := &config.Command{Ready: `listening on (\S+)`,
				Watch: []config.Watch{{Match: `ERROR|FATAL`, As: "error", Limit: new(5)}}}
			stream := &watchedStream{to: newWatcher(conf, &tools.Call{})}
			for b.Loop() {
				stream.scan(text)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(text)), "ns/byte")
		})
	}
}
