package rawjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

// appendTextSlowly is what appendText must equal: one character after the other.
func appendTextSlowly(dst []byte, text string) []byte {
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r == '\n':
			dst = append(dst, `\n`...)
		case r == '\r':
			dst = append(dst, `\r`...)
		case r == '\t':
			dst = append(dst, `\t`...)
		case r < ' ' || r == 0x7F || r == 0x2028 || r == 0x2029:
			dst = fmt.Appendf(dst, `\u%04x`, r)
		default:
			dst = utf8.AppendRune(dst, r)
		}
	}
	return dst
}

func BenchmarkEscape(b *testing.B) {
	for name, line := range map[string]string{
		"log": "main.go:123: the quick brown fox jumps over the lazy dog, and \"nobody\" minds it\n",
		"x":   strings.Repeat("x", 49) + "\n",
		"seq": "1234567\n",
		"new": "Съешь же ещё этих мягких французских булок\n",
		"any": sentence(1 << 20),
	} {
		b.Run(name, func(b *testing.B) {
			text := []byte(strings.Repeat(line, max(1, (64<<10)/len(line))))
			dst := make([]byte, 0, 2*len(text))
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				dst = AppendText(dst[:0], text)
			}
		})
	}
}

// sentence is text without a pattern, in which every sixth byte or so is escaped.
func sentence(n int) string {
	r := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, n)
	for i := range b {
		if b[i] = byte('a' + r.IntN(26)); r.IntN(6) == 0 {
			b[i] = "\n\t\"\\"[r.IntN(4)]
		}
	}
	return string(b)
}

func FuzzEscape(f *testing.F) {
	for _, s := range []string{"", "1234567\"8\x7f\x01 2345678\u20291234567\u2028", "éâ\u2030\u202a1\x80",
		"plain", "\x00\x1f\x7f\"\\/\b\f\n\r\t", "ä€😀", "\u2028\u2029\u2027", "<&>"} {
		f.Add(s)
		f.Add(strings.Repeat(s+" and what is behind it", 20)) // more than a block
	}
	f.Add(strings.Repeat("\x00", 300))
	f.Add(sentence(1000))
	f.Fuzz(func(t *testing.T, s string) {
		s = strings.ToValidUTF8(s, "\uFFFD")
		line := append(AppendText([]byte{'"'}, []byte(s)), '"')
		if want := append(appendTextSlowly([]byte{'"'}, s), '"'); !bytes.Equal(line, want) {
			t.Fatalf("%q became %s, want %s", s, line, want)
		}
		var got string
		if err := json.Unmarshal(line, &got); err != nil || got != s {
			t.Fatalf("%q became %s and is read as %q (%v)", s, line, got, err)
		}
		if bytes.ContainsAny(line, "\n\r\u2028\u2029") {
			t.Fatalf("%q holds a line end", line)
		}
	})
}
