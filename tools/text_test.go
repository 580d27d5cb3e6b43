package tools

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"runnel/partials"
	"runnel/tools/text"
)

func TestStripANSI(t *testing.T) {
	for in, want := range map[string]string{
		"plain\ttext\r\n\a":                      "plain\ttext\r\n\a",
		"\x1b[1;31mred\x1b[0m":                   "red",
		"\x1b[?25l\x1b[2Ka\x1b[10;20Hb":          "ab",
		"\x1b]0;title\aa\x1b]8;;http://x\x1b\\b": "ab",
		"\x1bPq#0\x1b\\a\x1b(Bb\x1b=c\x1b7d":     "abcd",
		"\x1b]never ended\nnext":                 "\nnext",
		"\x1b[12\nnext":                          "\nnext",
		"\x1b[31é":                               "é",
		"end\x1b[3":                              "end",
		"\x1b\x1b[1mx":                           "x",
		"\x1b]0;t\x1b[1mx":                       "x",
	} {
		if got := string(stripANSI([]byte(in))); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// stripSlowly is what a stripper must equal: one byte after the other.
func stripSlowly(p []byte, crlf bool) []byte {
	s := stripper{crlf: crlf}
	for _, b := range p {
		s.next(b)
	}
	return append(bytes.Clone(s.buf), s.flush()...)
}

// lineEndSlowly is what lineEnd must equal.
func lineEndSlowly(text []byte) int {
	for i, b := range text {
		switch {
		case b == '\n':
			return i + 1
		case b == '\r' && i+1 == len(text):
			return 0
		case b == '\r' && text[i+1] == '\n':
			return i + 2
		case b == '\r':
			return i + 1
		}
	}
	return 0
}

func FuzzLineEnd(f *testing.F) {
	for _, s := range []string{"", "a\n", "a\rb\n", "a\r\nb", "\r", "a\r", "\n\r", "\r\r\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if got, want := lineEnd(text, bytes.IndexByte(text, '\n')+1), lineEndSlowly(text); got != want {
			t.Errorf("lineEnd(%q) = %d, want %d", text, got, want)
		}
	})
}

// What the stripper returns does not depend on how its input was read.
func FuzzStripper(f *testing.F) {
	f.Add([]byte("a\x1b[1mb\r\nc\rd\x1b]0;t\x1b\\e"), uint8(3), true)
	f.Fuzz(func(t *testing.T, in []byte, size uint8, crlf bool) {
		want := stripSlowly(in, crlf)
		parts := stripper{crlf: crlf}
		var got []byte
		for part := range slices.Chunk(in, int(size)+1) {
			got = append(got, parts.filter(bytes.Clone(part))...)
		}
		got = append(got, parts.flush()...)
		if !bytes.Equal(got, want) {
			t.Errorf("byte by byte %q, in reads of %d %q", want, size+1, got)
		}
		if crlf && bytes.Contains(got, []byte("\r\n")) {
			t.Errorf("a \\r\\n is left in %q", got)
		}
	})
}

// feedStream gives a stream its input in reads of random size and returns the chunks it made.
func feedStream(t *testing.T, config CommandConfig, in []byte, rng *rand.Rand) ([]partials.Chunk, *record) {
	t.Helper()
	c, err := NewCommand("t", CommandConfig{Command: []string{"x"}, ANSI: config.ANSI, Output: config.Output, MaxOutput: config.MaxOutput}, Environment{})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	log := partials.NewLog(&partials.LogOptions{MaxPending: 64 << 20})
	reader := log.NewReader(0)
	defer reader.Close()
	r := newRecord(&c.config, nil, NewOutput(ctx, log, nil))
	for len(in) > 0 {
		n := min(len(in), 1+rng.IntN(200))
		_, _ = r.stdout.Write(bytes.Clone(in[:n]))
		in = in[n:]
	}
	r.stdout.finish()
	var chunks []partials.Chunk
	for {
		b, ok := reader.Next(1 << 20)
		if !ok {
			return chunks, r
		}
		chunks = append(chunks, b.Chunks...)
	}
}

func TestStreamIsValidAndWhole(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 0))
		pieces := []byte("abc é€𐍈\xff\xe2\r\n\n\x1b[1m")
		in := make([]byte, 5000)
		for i := range in {
			in[i] = pieces[(i+rng.IntN(2))%len(pieces)]
		}
		want := string(validText(stripANSI(in)))
		for _, output := range []string{"text", "lines"} {
			chunks, r := feedStream(t, CommandConfig{Output: output}, in, rng)
			var got strings.Builder
			for i, c := range chunks {
				if !utf8.Valid(c.Data) {
					t.Fatalf("chunk %q is not valid UTF-8", c.Data)
				}
				if end := lineEnd(append(bytes.Clone(c.Data), 'x'), bytes.IndexByte(c.Data, '\n')+1); output == "lines" && i < len(chunks)-1 && end != len(c.Data) {
					t.Fatalf("chunk %q is not one line", c.Data)
				}
				got.Write(c.Data)
			}
			shaped := text.Shaper{Limit: 1 << 18}
			_, _ = shaped.Write([]byte(want)) // never fails
			wantKept, _ := shaped.Text(1<<18, text.LeftOut)
			if kept, _ := r.stdout.kept.Text(1<<18, text.LeftOut); got.String() != want || kept != wantKept {
				t.Fatalf("%s: got %q\nkept %q\nwant %q", output, got.String(), kept, want)
			}
			if r.stdout.bytes != int64(len(in)) {
				t.Errorf("%d bytes counted, want %d", r.stdout.bytes, len(in))
			}
		}
	}
}

func TestLongLineGoesOutUnfinished(t *testing.T) {
	in := []byte(strings.Repeat("x", maxHeldLine+1000) + "\nend")
	chunks, _ := feedStream(t, CommandConfig{Output: "lines"}, in, rand.New(rand.NewPCG(1, 1)))
	if n := len(chunks); n < 3 || string(chunks[n-1].Data) != "end" {
		t.Errorf("%d chunks", n)
	}
}

func TestProgressMarks(t *testing.T) {
	for _, test := range []struct {
		pattern, reads, want string // reads are separated by |
	}{
		{`(\d+)%`, "10%\n|20%\n", "10/100 20/100"},
		{`(\d+)%`, "1|0%| done\n", "10/100"},
		{`(\d+)%`, "10%\n20%\n30%\n", "30/100"},
		{`(\d+)%`, "10%...20%...30%\n", "30/100"},
		{`(\d+)%`, "\r10%|\r20%|\r100%|\n", "10/100 20/100 100/100"},
		{`(\d+)%`, "20%\n|20%\n|120%\n", "20/100"},
		{`\[(\d+)/(\d+)\]`, "[1/3] a\nx\n|[2/3] b\ny\n", "1/3 2/3"},
		{`([\d,.]+)/([\d,]+)`, "1,000.5/2,000\n", "1000.5/2000"},
		{`(\d+)%`, "\x1b[1m5\x1b[0m%\n", "5/100"},
		{`(\w+)%`, "many%\n", ""},
	} {
		var got []string
		m := progressMarks{marks: regexp.MustCompile(test.pattern), report: func(done, total float64, _ string) {
			got = append(got, fmt.Sprintf("%g/%g", done, total))
		}}
		for read := range strings.SplitSeq(test.reads, "|") {
			m.scan([]byte(read))
		}
		if s := strings.Join(got, " "); s != test.want {
			t.Errorf("%s in %q: %q, want %q", test.pattern, test.reads, s, test.want)
		}
	}
}

func BenchmarkStream(b *testing.B) {
	line := []byte(strings.Repeat("ok  \tgithub.com/example/package\t0.012s\n", 800))
	for _, output := range []string{"text", "lines"} {
		b.Run(output, func(b *testing.B) {
			c, err := NewCommand("t", CommandConfig{Command: []string{"x"}, Output: output, MaxOutput: new(Size(1 << 50))}, Environment{})
			if err != nil {
				b.Fatal(err)
			}
			ctx := b.Context()
			r := newRecord(&c.config, nil, NewOutput(ctx, partials.NewLog(nil), nil))
			b.SetBytes(int64(len(line)))
			b.ReportAllocs()
			for b.Loop() {
				_, _ = r.stdout.Write(line)
			}
		})
	}
}
