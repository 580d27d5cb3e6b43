package partials

import (
	"encoding/json"
	"fmt"
	"testing"
	"unicode/utf8"
)

// A line says the same when it is read as when it was written: token, seq, content, and on the last line that
// it is the last.
func FuzzSEP2998(f *testing.F) {
	f.Add("token", int64(0), "some output\n", "warning", uint8(3))
	f.Add("", int64(-1), "\x00", "", uint8(0))
	f.Fuzz(func(t *testing.T, name string, number int64, out, errs string, n uint8) {
		if !utf8.ValidString(name) || !utf8.ValidString(out) || !utf8.ValidString(errs) {
			return // the log holds valid UTF-8 only, and so does a request
		}
		chunks, want := mixedChunks(out, errs, int(n)+1)
		for _, value := range []any{name, number} { // "string | number", as a progress token
			token, err := json.Marshal(value)
			if err != nil {
				t.Fatal(err)
			}
			d := NewSEP2998(head, token)
			var lines [][]byte
			for range 3 {
				lines = append(lines, d.Encode(nil, NewBatch(0, chunks...)))
			}
			if line := d.Encode(nil, Batch{}); len(line) > 0 {
				t.Fatalf("nothing is spelled %s", line)
			}
			lines = append(lines, d.End(nil))
			for seq, line := range lines {
				final := seq == len(lines)-1
				p, err := DecodeSEP2998(line)
				if err != nil || p.Seq != int64(seq) || string(p.Token) != string(token) ||
					p.Final != final || p.Content == nil {
					t.Fatalf("%s is read as %+v (%v)", line, p, err)
				}
				if got := pieces(t, p.Content); !final && fmt.Sprint(got) != fmt.Sprint(want) ||
					final && len(got) > 0 {
					t.Fatalf("got %q, want %q", got, want)
				}
				if _, err := DecodeSEP2679(line); err == nil {
					t.Fatalf("%s is read as another dialect", line)
				}
			}
		}
	})
}
