package command

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"runnel/partials"
	"runnel/tools"
	"runnel/tools/config"
	"runnel/tools/text"
)

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

// firstEnd is lineEnd of the first line of a text.
func firstEnd(text []byte) int {
	for line := range bytes.Lines(text) {
		return lineEnd(line)
	}
	return 0
}

func FuzzLineEnd(f *testing.F) {
	for _, s := range []string{"", "a\n", "a\rb\n", "a\r\nb", "\r", "a\r", "\n\r", "\r\r\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if got, want := firstEnd(text), lineEndSlowly(text); got != want {
			t.Errorf("lineEnd(%q) = %d, want %d", text, got, want)
		}
	})
}

// feedStream gives a stream its input in reads of random size and returns the chunks it made.
func feedStream(t *testing.T, conf config.Command, in []byte, rng *rand.Rand) ([]partials.Chunk, *record) {
	t.Helper()
	c, err := New("t", config.Command{Command: []string{"x"}, ANSI: conf.ANSI, Output: conf.Output,
		MaxOutput: conf.MaxOutput}, config.Base{})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	log := partials.NewLog(&partials.LogOptions{MaxPending: 64 << 20})
	reader := log.NewReader(0)
	defer reader.Close()
	r := newRecord(ctx, &c.config, tools.NewOutput(ctx, log, nil), 32<<10, nil)
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
		chunks = append(chunks, b.Chunks()...)
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
		want := string(text.Valid(text.StripANSI(in)))
		for _, output := range []string{"text", "lines"} {
			chunks, r := feedStream(t, config.Command{Output: output}, in, rng)
			var got strings.Builder
			for i, c := range chunks {
				if !utf8.Valid(c.Data) {
					t.Fatalf("chunk %q is not valid UTF-8", c.Data)
				}
				if end := firstEnd(append(bytes.Clone(c.Data), 'x')); output == "lines" &&
					i < len(chunks)-1 && end != len(c.Data) {
					t.Fatalf("chunk %q is not one line", c.Data)
				}
				got.Write(c.Data)
			}
			shaped := text.Shaper{Limit: 1 << 18}
			_, _ = shaped.Write([]byte(want)) // never fails
			wantKept, _ := shaped.Text(1<<18, text.Gap.Words)
			plain := string(text.WithoutColors([]byte(got.String())))
			if kept, _ := r.stdout.kept.Text(1<<18, text.Gap.Words); plain != want || kept != wantKept {
				t.Fatalf("%s: got %q\nkept %q\nwant %q", output, got.String(), kept, want)
			}
			if r.stdout.bytes != int64(len(in)) {
				t.Errorf("%d bytes counted, want %d", r.stdout.bytes, len(in))
			}
		}
	}
}

// A line that is drawn over very often takes a time that grows with its length.
func TestManyReturns(t *testing.T) {
	began := time.Now()
	ends := 0
	(&lineBuffer{}).add(bytes.Repeat([]byte("\r"), 1<<20), func(_ []byte, all []int) { ends += len(all) })
	// A square of the length takes minutes.
	if took := time.Since(began); ends != 1<<20-1 || took > 30*time.Second {
		t.Errorf("%d lines in %v", ends, took)
	}
}

func TestLongLineGoesOutUnfinished(t *testing.T) {
	in := []byte(strings.Repeat("x", maxHeldLine+1000) + "\nend")
	chunks, _ := feedStream(t, config.Command{Output: "lines"}, in, rand.New(rand.NewPCG(1, 1)))
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
		m := progressMarks{marks: regexp.MustCompile(test.pattern),
			report: func(done, total float64, _ string) {
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
			c, err := New("t", config.Command{Command: []string{"x"}, Output: output,
				MaxOutput: new(config.Size(1 << 50))}, config.Base{})
			if err != nil {
				b.Fatal(err)
			}
			ctx := b.Context()
			r := newRecord(ctx, &c.config, tools.NewOutput(ctx, partials.NewLog(nil), nil), 32<<10, nil)
			b.SetBytes(int64(len(line)))
			b.ReportAllocs()
			for b.Loop() {
				_, _ = r.stdout.Write(line)
			}
		})
	}
}
