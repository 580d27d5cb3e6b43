package terminal

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// draw returns what stands after a program has printed a text, in pieces.
func draw(t *testing.T, printed string) string {
	t.Helper()
	var b strings.Builder
	d := Drawn{Rows: 40, Take: func(line []byte, at int64) {
		if at < 0 || at > int64(len(printed)) {
			t.Errorf("%.100q began at %d", line, at)
		}
		b.Write(line)
	}}
	for at := 0; at < len(printed); {
		n := min(1+rand.IntN(100), len(printed)-at)
		for at+n < len(printed) && !utf8.RuneStart(printed[at+n]) {
			n++
		}
		d.Write([]byte(printed[at:at+n]), int64(at))
		at += n
	}
	d.End()
	return b.String()
}

func TestDrawn(t *testing.T) {
	for printed, want := range map[string]string{
		"":                                       "",
		"a\r\nb\r\n":                             "a\nb\n",
		"a\r\nb":                                 "a\nb",
		"a\tb\r\n\r\n":                           "a\tb\n\n",
		"10%\r20%\r100%\r\n":                     "100%\n",
		"Installing\rDone\r\n":                   "Donealling\n", // as a terminal shows it
		"\x1b[1G- one\x1b[1G\x1b[0K+ two\r\nok":  "+ two\nok",
		"50%\b\b\b60%":                           "60%",
		"one\r\ntwo\r\n\x1b[2A\x1b[2KONE\r\n":    "ONE\ntwo\n",
		"one\r\ntwo\r\n\x1b[1A\x1b[2K\x1b[1Aone": "one\n",
		"before\r\n\x1b[?1049hfull\r\nscreen\x1b[?1049lafter":      "before\nafter",
		"before\r\n\x1b[?1049hfull\r\nscreen":                      "before\nfull\nscreen",
		"one\r\ntwo\r\n\x1b[?1049h\x1bM\x1bM\x1bM\x1b[?1049lafter": "one\ntwo\nafter",
		"a\r\n\x1b]0;cut off\r\nb\r\n\x1bPq\r\nc":                  "a\n\nb\n\nc",
		"\x1b]0;✔ title\aafter\x1b]8;;x\x1b\\ link":                "after link",
		"\x1b]0;title\a\x1b[31mred\x1b[0m":                         "red",
		// The blank is half of what was there.
		"漢字\r\x1b[3Gx":                     "漢x ",
		"漢字\x1b[2Gx":                       " x字",
		"e\u0301a\x1b[1Gi":                 "ia",
		"abc\x1b[2G\x1b[P":                 "ac",
		"abc\x1b[2G\x1b[@x":                "axbc",
		"a\tb\x1b[4Gx":                     "a  x    b",
		"lost\x1b[2J\x1b[Hkept":            "kept",
		strings.Repeat("x", 300) + "\r\ny": strings.Repeat("x", 300) + "\ny",
		strings.Repeat("line\r\n", 100) + "\x1b[99Atop": strings.Repeat("line\n", 61) + "tope\n" +
			strings.Repeat("line\n", 38),
	} {
		for range 3 {
			if got := draw(t, printed); got != want {
				t.Errorf("%q stands as %q, want %q", printed, got, want)
			}
		}
	}
	// A bar below the rows that scroll, as apt has it.
	bar := "\x1b7\x1b[1;39r\x1b8"
	for i := range 60 {
		bar += fmt.Sprintf("line %d\r\n\x1b7\x1b[40;1HProgress: %d%%\x1b8", i, i)
	}
	bar += "\x1b7\x1b[1;40r\x1b[40;1H\x1b[K\x1b8end\r\n"
	var lines strings.Builder
	for i := range 60 {
		fmt.Fprintf(&lines, "line %d\n", i)
	}
	if got, want := draw(t, bar), lines.String()+"end\n"; got != want {
		t.Errorf("with a bar below: %q, want %q", got, want)
	}
	long := strings.Repeat("y", 3*maxRow+5)
	if got := draw(t, "a\r\n"+long+"\r\nb"); got != "a\n"+long+"\nb" {
		t.Errorf("of a long line %d bytes are left", len(got))
	}
}

// Whatever a program prints, it is bounded and valid, and its lines come in order.
func TestDrawnAnything(t *testing.T) {
	words := []string{"a", "漢", "\u0301", "\r", "\n", "\b", "\t", "\x1b[A", "\x1b[9B", "\x1b[7C",
		"\x1b[70000C", "\x1b[D", "\x1b[5;9H", "\x1b[K", "\x1b[1K", "\x1b[2K", "\x1b[J", "\x1b[1J", "\x1b[2J",
		"\x1b[3P", "\x1b[2@", "\x1b[9X", "\x1b7", "\x1b8", "\x1bM", "\x1b[?1049h", "\x1b[?1049l", "\x1b[2;5r",
		"\x1b[;39r", "\x1b[r", "\x1b[", "\x1b]", "\x1bP", "\x07", "x y"}
	for range 300 {
		var b strings.Builder
		for range rand.IntN(200) {
			b.WriteString(words[rand.IntN(len(words))])
		}
		got := draw(t, b.String())
		if !utf8.ValidString(got) || strings.ContainsAny(got, "\x1b\r\b") {
			t.Fatalf("%.500q stands as %.500q", b.String(), got)
		}
	}
}

// Programs that print lines, and draw over some, stand as tmux shows them.
func TestDrawnAsTmuxShowsIt(t *testing.T) {
	for _, name := range []string{"python", "node", "sqlite", "bash", "bc", "progress", "npm-init", "git-add",
		"ssh-keygen", "gdb"} {
		printed, err := os.ReadFile(filepath.Join("testdata", "screens", name+".raw"))
		if err != nil {
			t.Fatal(err)
		}
		shown, err := os.ReadFile(filepath.Join("testdata", "screens", name+".screen"))
		if err != nil {
			t.Fatal(err)
		}
		_, want, _ := strings.Cut(string(shown), "\n")
		var lines []string
		for line := range strings.Lines(draw(t, string(printed))) {
			line = strings.TrimRight(line, " \n")
			for tab := strings.IndexByte(line, '\t'); tab >= 0; tab = strings.IndexByte(line, '\t') {
				line = line[:tab] + strings.Repeat(" ", tabStop-tab%tabStop) + line[tab+1:]
			}
			lines = append(lines, line)
		}
		if got := strings.Join(lines, "\n"); strings.TrimRight(got, "\n") != strings.TrimRight(want, "\n") {
			t.Errorf("%s stands as\n%s\nwant\n%s", name, got, want)
		}
	}
}

// What spinners and lists of npm's ora, listr2 and cli-progress print on a terminal of 120×40 stands as one line
// for each thing.
func TestDrawnByPrograms(t *testing.T) {
	bar := strings.Repeat("█", 40)
	for name, want := range map[string]string{
		"ora":          "✔ Done\nafter\n",
		"listr2":       "✔ one\n✔ two\n✔ three\nend\n",
		"cli-progress": " " + bar + " 100% | ETA: 0s | 10/10\n " + bar + " 100% | ETA: 0s | 10/10\nfin\n",
	} {
		printed, err := os.ReadFile(filepath.Join("testdata", "drawn", name+".raw"))
		if err != nil {
			t.Fatal(err)
		}
		if got := draw(t, string(printed)); got != want {
			t.Errorf("%s stands as %q, want %q", name, got, want)
		}
	}
}

func BenchmarkDrawn(b *testing.B) {
	printed := []byte(strings.Repeat("ok  \trunnel/tools/text\t0.123s\tcoverage: 87.5% of statements\r\n",
		100) + strings.Repeat("\x1b[1G\x1b[0K\x1b[36m-\x1b[39m Installing", 20))
	d := Drawn{Rows: 24, Take: func([]byte, int64) {}}
	b.SetBytes(int64(len(printed)))
	b.ReportAllocs()
	for b.Loop() {
		d.Write(printed, 0)
	}
}
