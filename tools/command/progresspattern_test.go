package command

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
)

// A pattern that is only parsed at the start must compile at the first call.
func FuzzProgressPattern(f *testing.F) {
	for _, pattern := range []string{`(\d+)%`, `\[(\d+)/(\d+)\]`, `(`, `a`, `(a)(b)(c)`, `(a{1000})`,
		`(a{1001})`, `((a{100}){100})`, `(\pL)`, `(?P<n>a)`, "(\xff)"} {
		f.Add(pattern)
	}
	f.Fuzz(func(t *testing.T, pattern string) {
		re, err := regexp.Compile(pattern)
		fine := pattern == "" || err == nil && (re.NumSubexp() == 1 || re.NumSubexp() == 2)
		if err := checkProgress(pattern); (err == nil) != fine {
			t.Errorf("%q: %v", pattern, err)
		}
		if fine && pattern != "" {
			newProgressMarks(pattern, nil) // compiles it
		}
	})
}

// The newest mark of what was read is found wherever it stands, however the text comes.
func TestNewestMark(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, pattern := range []string{`\[(\d+)/(\d+)\]`, `(\d+)%`, `(\d+) of (\d+)`, `(?i)done: (\d+)`,
		`x*(\d+)`, `(\d+)(?:%| percent)`, `(?:(\d+)/(\d+) )+`} {
		re := regexp.MustCompile(pattern)
		pieces := []string{"\n", "\r", "\r\n", "\x1b[32m", "\x1b[0m", "no mark", "/", "[", "]", "%", " of ",
			"Done: ", "7", "main.go:12/13: [x] "}
		for i := range 40 {
			pieces = append(pieces, fmt.Sprintf("[%d/40]", i), fmt.Sprintf("%d%%", i),
				fmt.Sprintf("%d of 50", i), fmt.Sprintf("done: %d", i),
				fmt.Sprintf("\x1b[1m%d\x1b[0m/\x1b[1m40 ", i))
		}
		for range 2000 {
			var got, want string
			m := newProgressMarks(pattern,
				func(done, total float64, _ string) { got = fmt.Sprint(done, total) })
			// Searches each line.
			all := &progressMarks{marks: re,
				report: func(done, total float64, _ string) { want = fmt.Sprint(done, total) }}
			var read strings.Builder
			for range rng.IntN(5) + 1 {
				var text strings.Builder
				for range rng.IntN(12) + 1 {
					text.WriteString(pieces[rng.IntN(len(pieces))])
				}
				fmt.Fprintf(&read, "%q ", text.String())
				m.scan([]byte(text.String()))
				all.scan([]byte(text.String()))
				if got != want {
					t.Fatalf("%s: after %sthe newest mark is %s, want %s", pattern, &read, got, want)
				}
			}
		}
	}
}

// How long a fast log is searched for marks, beside the 3 ns a byte of its way: it has none, or some.
func BenchmarkProgressMarks(b *testing.B) {
	line := "main.go:123: the quick brown fox jumps over the lazy dog, and \"nobody\" minds it\n"
	for _, log := range []struct{ name, pattern, text string }{
		{"none", `\[(\d+)/(\d+)\]`, line},
		{"percent", `(\d+)%`, line},
		{"coloured", `\[(\d+)/(\d+)\]`,
			"\x1b[32mok\x1b[0m  runnel/tools/text_test.go \x1b[1m0.123s\x1b[0m  coverage: 87.5 of statements\n"},
		{"rare", `\[(\d+)/(\d+)\]`, "[1/2] first\n" + strings.Repeat(line, 400)},
		{"each", `\[(\d+)/(\d+)\]`, "[1/2] " + line},
	} {
		b.Run(log.name, func(b *testing.B) {
			text := []byte(strings.Repeat(log.text, (32<<10)/len(log.text)))
			m := newProgressMarks(log.pattern, func(_, _ float64, _ string) {})
			for b.Loop() {
				m.scan(text)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(text)), "ns/byte")
		})
	}
}
