package text

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// shape is what a Shaper makes of pieces.
func shape(limit int, pieces ...string) (string, bool) {
	s := Shaper{Limit: limit}
	for _, p := range pieces {
		_, _ = s.Write([]byte(p)) // never fails
	}
	return s.Text(limit, Gap.Words)
}

func jsonSize(s string) int {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return len(b) - 2
}

func TestALineDrawnOverIsItsLastState(t *testing.T) {
	for in, want := range map[string]string{
		"":                           "",
		"plain\ntext":                "plain\ntext",
		"dos\r\nlines\r\n\r\n":       "dos\r\nlines\r\n\r\n",
		"10%\r50%\r100%\ndone\n":     "100%\ndone\n",
		"10%\r50%\r100%\r\ndone\n":   "100%\r\ndone\n",
		"10%\r50%\r":                 "50%",
		"10%\r\r\n":                  "10%\r\n",
		"\r10%\r20%":                 "20%",
		"before\n10%\r20%\nafter":    "before\n20%\nafter",
		"working\r       \rfinished": "finished",
		"\n\n\n\n":                   "\n\n\n\n",
	} {
		if got, cut := shape(1000, in); got != want || cut {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
		if got, _ := shape(1000, strings.Split(in, "")...); got != want {
			t.Errorf("%q byte by byte: %q, want %q", in, got, want)
		}
	}
	s := Shaper{Limit: 100, KeepFrames: true}
	_, _ = s.Write([]byte("1%\r2%\r\n3%\r"))
	if got, _ := s.Text(100, Gap.Words); got != "1%\r2%\r\n3%\r" {
		t.Errorf("frames that are kept: %q", got)
	}
}

// A line that is drawn over very often takes a time that grows with its length.
func TestManyReturns(t *testing.T) {
	began := time.Now()
	got, _ := shape(1000, strings.Repeat("\r", 1<<20)+"x\n")
	// A square of the length takes minutes.
	if took := time.Since(began); got != "x\n" || took > 30*time.Second {
		t.Errorf("%q in %v", got, took)
	}
}

func TestEqualLinesAreOneWhereTheTextIsTooLong(t *testing.T) {
	in := "a\na\nb\n" + strings.Repeat("again\n", 5) + "\n\n\nend"
	if got, _ := shape(jsonSize(in), in); got != in {
		t.Errorf("%q: it fits, so nothing is joined", got)
	}
	got, cut := shape(jsonSize(in)-1, in)
	if want := "a\na\nb\nagain (5 times)\n (3 times)\nend"; got != want || cut {
		t.Errorf("%q, cut %v, want %q", got, cut, want)
	}
	long := strings.Repeat("warning: the same\r\n", 1_000_000) + "last\n"
	if got, cut := shape(1000, long); got != "warning: the same (1000000 times)\r\nlast\n" || cut {
		t.Errorf("%q, cut %v", got, cut)
	}
	frames := "start\n" + strings.Repeat("\rspin /\rspin -", 100_000) + "\nend\n"
	if got, cut := shape(1000, frames); got != "start\nspin -\nend\n" || cut {
		t.Errorf("%q, cut %v", got, cut)
	}
}

// The head has a quarter, the tail the rest, and the gap tells where it is and how long.
func TestHeadAndTail(t *testing.T) {
	var in strings.Builder
	for n := range 200_000 {
		fmt.Fprintf(&in, "%d\n", n+1)
	}
	const limit = 32 << 10
	s := Shaper{Limit: limit, From: 1000}
	_, _ = s.Write([]byte(in.String()))
	var gap Gap
	got, cut := s.Text(limit, func(g Gap) string {
		gap = g
		return fmt.Sprintf("[%d left out at %d]", g.Bytes, g.After)
	})
	head, tail, ok := strings.Cut(got, fmt.Sprintf("[%d left out at %d]\n", gap.Bytes, gap.After))
	if !ok || !cut {
		t.Fatalf("no gap in %q", got)
	}
	whole := in.String()
	if !strings.HasPrefix(whole, head) || !strings.HasSuffix(whole, tail) {
		t.Error("not the head and the tail")
	}
	if gap.After != 1000+int64(len(head)) || gap.Bytes != int64(len(whole)-len(head)-len(tail)) {
		t.Errorf("%+v, with a head of %d and a tail of %d of %d bytes", gap, len(head), len(tail), len(whole))
	}
	if n := jsonSize(got); n > limit || n < limit-maxSlack {
		t.Errorf("size %d of %d", n, limit)
	}
	if n := jsonSize(head); n > limit/4 || n < limit/4-maxSlack {
		t.Errorf("a head of %d", n)
	}
	if !strings.HasSuffix(head, "\n") || whole[len(whole)-len(tail)-1] != '\n' {
		t.Error("cut inside a line")
	}
}

// A position is that of the bytes as they were written, also where lines are shorter than they were.
func TestPositionsAreThoseOfWhatWasWritten(t *testing.T) {
	var in strings.Builder
	for n := range 5000 {
		fmt.Fprintf(&in, "line %d  0%%\rline %d 50%%\rline %d done\n", n, n, n)
	}
	s := Shaper{Limit: 4096}
	_, _ = s.Write([]byte(in.String()))
	var gap Gap
	got, _ := s.Text(4096, func(g Gap) string {
		gap = g
		return "GAP"
	})
	before, after, _ := strings.Cut(got, "GAP\n")
	first := after[:strings.Index(after, "\n")+1]
	whole := in.String()
	var last int
	if _, err := fmt.Sscanf(before[strings.LastIndex(before[:len(before)-1], "\n")+1:], "line %d done",
		&last); err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("line %d done\n", last+1); !strings.HasPrefix(whole[gap.After:], want) {
		t.Errorf("behind the head there stands %q, want %q", whole[gap.After:][:40], want)
	}
	if begins := whole[gap.After+gap.Bytes:]; !strings.HasPrefix(begins, first) {
		t.Errorf("the tail begins with %q, there stands %q", first, begins[:40])
	}
}

func TestInsertedWordsStandForBytes(t *testing.T) {
	s := Shaper{Limit: 100}
	_, _ = s.Write([]byte("text"))
	s.Insert("[image]", 5000)
	_, _ = s.Write([]byte("more\n"))
	s.Insert("[audio]\n", 1)
	if got, _ := s.Text(100, Gap.Words); got != "text\n[image]\nmore\n[audio]\n" || s.pos() != 4+5000+5+1 {
		t.Errorf("%q, position %d", got, s.pos())
	}
}

func TestShort(t *testing.T) {
	if got := Short("a\rb", 100); got != "a\rb" {
		t.Errorf("%q", got)
	}
	got := Short(strings.Repeat("é", 1000), 200)
	if jsonSize(got) > 200 || !strings.Contains(got, "é\n[... 1") ||
		!strings.Contains(got, " left out ...]\né") {
		t.Errorf("%q", got)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	s := Shaper{Limit: 4096}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		line := make([]byte, rng.IntN(3*s.Limit)/(1+rng.IntN(1000)))
		for i := range line {
			line[i] = "abcdefgh \r\n\n"[rng.IntN(12)]
		}
		_, _ = s.Write(line)
		if held := len(s.lines.line) + len(s.whole) + len(s.held) + len(s.out.head.text) +
			len(s.out.tail.text); held > 8*s.Limit {
			t.Fatalf("%d bytes are held", held)
		}
	}
}

func TestSeconds(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0.001 s", 12 * time.Millisecond: "0.012 s", 99900 * time.Microsecond: "0.1 s",
		100 * time.Millisecond: "0.1 s", 3210 * time.Millisecond: "3.2 s", 70249 * time.Millisecond: "70.2 s",
		12 * time.Second: "12 s", 1800400 * time.Millisecond: "1800 s",
	} {
		if got := Seconds(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}

// FuzzShaper holds what is true of every text: it is valid, and fits; what needs no change is not changed;
// and where it is cut into pieces makes no difference.
func FuzzShaper(f *testing.F) {
	f.Add([]byte("a\nb\r\nc\rd\n"), uint16(200), uint64(1))
	f.Add([]byte(strings.Repeat("same\n", 100)), uint16(150), uint64(2))
	f.Add([]byte(strings.Repeat("é\x00<\u2028\xff", 300)), uint16(300), uint64(3))
	f.Add([]byte(strings.Repeat("x", 3000)+"\r"+strings.Repeat("y\r\n", 300)), uint16(256), uint64(4))
	f.Fuzz(func(t *testing.T, in []byte, limit uint16, seed uint64) {
		most := max(int(limit), 128)
		whole, cut := shape(most, string(in))
		if !utf8.ValidString(whole) {
			t.Fatalf("%q is not valid", whole)
		}
		if n := jsonSize(whole); n > most {
			t.Fatalf("size %d above %d: %q", n, most, whole)
		}
		lone := strings.Contains(strings.ReplaceAll(string(in), "\r\n", ""), "\r")
		if utf8.Valid(in) && !lone && jsonSize(string(in)) <= most && (whole != string(in) || cut) {
			t.Fatalf("%q became %q", in, whole)
		}
		if cut != strings.Contains(whole, " bytes left out ...]\n") &&
			!strings.Contains(string(in), "left out") {
			t.Fatalf("cut %v: %q", cut, whole)
		}
		rng := rand.New(rand.NewPCG(seed, 0))
		var pieces []string
		for rest := string(in); rest != ""; {
			n := 1 + rng.IntN(min(len(rest), 1+rng.IntN(100)))
			pieces = append(pieces, rest[:n])
			rest = rest[n:]
		}
		if got, gotCut := shape(most, pieces...); got != whole || gotCut != cut {
			t.Fatalf("%q in pieces %q: %q, %v; in one %q, %v", in, pieces, got, gotCut, whole, cut)
		}
	})
}

func BenchmarkShaper(b *testing.B) {
	for name, line := range map[string]string{"short": "123456\n", "usual": strings.Repeat("x", 60) + "%d\n",
		"returns": "10%\r20%\r\n"} {
		b.Run(name, func(b *testing.B) {
			var in []byte
			for n := 0; len(in) < 32<<10; n++ {
				in = append(in, strings.Replace(line, "3", fmt.Sprint(n%10), 1)...)
			}
			s := Shaper{Limit: 32 << 10}
			b.SetBytes(int64(len(in)))
			for b.Loop() {
				_, _ = s.Write(in)
			}
		})
	}
}
