package text

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

func TestStripANSI(t *testing.T) {
	for in, want := range map[string]string{
		"plain\ttext\r\n\a":                      "plain\ttext\r\n\a",
		"\x1b[1;31mred\x1b[0m":                   "red",
		"\x1b[1G\x1b[0K- a\x1b[G+ b\x1b[5Gc":     "\r- a\r+ bc",
		"\x1b[?25l\x1b[2Ka\x1b[10;20Hb":          "ab",
		"\x1b]0;title\aa\x1b]8;;http://x\x1b\\b": "ab",
		"\x1bPq#0\x1b\\a\x1b(Bb\x1b=c\x1b7d":     "abcd",
		"\x1b]never ended\nnext":                 "\nnext",
		"\x1b[12\nnext":                          "\nnext",
		"\x1b[31é":                               "é",
		"end\x1b[3":                              "end",
		"\x1b\x1b[1mx":                           "x",
		"\x1b]0;t\x1b[1mx":                       "x",
		"\u009b31mred\u009b0m «\u009b2Jb»°":      "red «b»°",
	} {
		if got := string(StripANSI([]byte(in))); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// With Colors, nothing passes but what changes how text looks.
func TestStripAllButColors(t *testing.T) {
	for in, want := range map[string]string{
		"\x1b[1;31mred\x1b[0m \x1b[38:5:1mx\x1b[m":          "\x1b[1;31mred\x1b[0m \x1b[38:5:1mx\x1b[m",
		"\x1b[2Ja\x1b[10;20Hb\x1b[?25lc\x1b]0;t\x1b[1m\ad":  "abc\x1b[1m\ad",
		"\x1b[>4;2mx\x1b[?4my\x1b[1 mz\x1b[31\nw":           "xyz\nw",
		"\x1b[" + strings.Repeat("1;", maxColor) + "1mlong": "long",
		"\u009b31mred\u009b0m\u009b2J":                      "\x1b[31mred\x1b[0m",
	} {
		s := Stripper{Colors: TerminalColor}
		if got := string(s.Strip([]byte(in))); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// stripSlowly is what a Stripper must equal: one byte after the other.
func stripSlowly(p []byte, crlf bool) []byte {
	s := Stripper{CRLF: crlf}
	if crlf {
		s.Colors = TerminalColor
	}
	for _, b := range p {
		s.next(b)
	}
	return append(bytes.Clone(s.buf), s.Flush()...)
}

// A Stripper's result does not depend on how its input was read.
func FuzzStripper(f *testing.F) {
	f.Add([]byte("a\x1b[1mb\r\nc\rd\x1b]0;t\x1b\\e"), uint8(3), true)
	f.Add([]byte("a\r\x1b[K\nb"), uint8(3), true)
	f.Add([]byte("a\r\u009b1mé«\xc2\xc2\u009b\xc2"), uint8(0), true)
	f.Fuzz(func(t *testing.T, in []byte, size uint8, crlf bool) {
		want := stripSlowly(in, crlf)
		parts := Stripper{CRLF: crlf}
		if crlf {
			parts.Colors = TerminalColor
		}
		var got []byte
		for part := range slices.Chunk(in, int(size)+1) {
			got = append(got, parts.Strip(bytes.Clone(part))...)
		}
		got = append(got, parts.Flush()...)
		if !bytes.Equal(got, want) {
			t.Errorf("byte by byte %q, in reads of %d %q", want, size+1, got)
		}
		if crlf && bytes.Contains(got, []byte("\r\n")) {
			t.Errorf("a \\r\\n is left in %q", got)
		}
	})
}

func TestLastLines(t *testing.T) {
	for _, test := range []struct {
		in   string
		max  int
		want string
	}{
		{"", 10, ""},
		{"a\nb\n\n", 10, "a\nb"},
		{"aaaa\nbbbb\ncccc\n", 9, "bbbb\ncccc"},
		{"aaaa\nbbbb\ncccc\n", 8, "cccc"},
		{"ééééé", 5, "éé"},
		{" 1%\r 2%\r 3%\r\nok\r\n", 20, " 3%\nok"},
		{"\x1b[1mbold\x1b[0m\n", 20, "bold"},
		{"\xa9cut\n", 20, "cut"},
	} {
		if got := LastLines([]byte(test.in), test.max); got != test.want {
			t.Errorf("%q in %d: %q, want %q", test.in, test.max, got, test.want)
		}
	}
}
