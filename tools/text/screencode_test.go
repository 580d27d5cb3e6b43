package text

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What terminals are sent comes back as it was, but for titles, and the text of a log is its text alone, however
// it was cut.
func TestEncoder(t *testing.T) {
	for raw, plain := range map[string]string{
		"a\r\nb\r\n":                         "a\nb\n",
		"\x1b[1;31mred\x1b[0m\r\n":           "red\n",
		"\x1b[?1049h\x1b[2J\x1b[3;4Hx\x1b[K": "x",
		"10%\r20%\r":                         "10%\r20%\r",
		"\x1b(0lqk\x1b(B\x1b7\x1b8\x1bM":     "lqk",
		"ü\b \x1b[1Gé":                       "ü\b é",
		"down\n\r":                           "down\r",
	} {
		for size := 1; size <= len(raw); size++ {
			var e Encoder
			var log []byte
			for at := 0; at < len(raw); at += size {
				log = append(log, e.Encode([]byte(raw[at:min(at+size, len(raw))]))...)
			}
			log = append(log, e.Flush()...)
			if got := string(WithoutColors(log)); got != plain {
				t.Errorf("%q in pieces of %d: the text is %q, want %q", raw, size, got, plain)
			}
			want := strings.ReplaceAll(raw, "\n\r", "\x1bD\r")
			if got := string(Decode(nil, log)); got != want {
				t.Errorf("%q in pieces of %d comes back as %q", raw, size, got)
			}
		}
	}
	for raw, want := range map[string]string{
		"\x1b]0;title\aa\x1b]8;;http://x\x1b\\b":  "ab",
		"\x1b[8;10;10ta":                          "a", // a size of the window
		"\x1b[" + strings.Repeat("1;", 200) + "m": "",
	} {
		var e Encoder
		if got := string(e.Encode([]byte(raw))); got != want {
			t.Errorf("%q is kept as %q", raw, got)
		}
	}
}

// No program writes a log that clients get with a part of a sequence.
func TestEncoderOfPrograms(t *testing.T) {
	files, err := filepath.Glob("../terminal/testdata/screens/*.raw")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d recordings, %v", len(files), err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var e Encoder
		log := bytes.Clone(e.Encode(raw))
		if plain := WithoutColors(log); bytes.ContainsAny(plain, "\x1b\u009b") {
			t.Errorf("%s: a sequence is left in the text: %.80q", file,
				plain[bytes.IndexAny(plain, "\x1b\u009b"):])
		}
	}
}
