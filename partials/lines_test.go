package partials

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// slowly hides that a dialect is a liner.
type slowly struct{ Dialect }

// The short way writes what Next and Encode do: the same lines, whatever the output is, wherever the reader begins and what of it is
// no longer kept.
func FuzzLines(f *testing.F) {
	for seed := range uint64(30) {
		f.Add(seed, uint16(200*seed), uint16(0))
		f.Add(seed, uint16(0), uint16(seed))
	}
	f.Fuzz(func(t *testing.T, seed uint64, maxBytes, from uint16) {
		rng := rand.New(rand.NewPCG(seed, 0))
		l := NewLog(&LogOptions{Retain: 1 << rng.IntN(16)})
		early := func() *Reader { return &Reader{log: l, slow: true} } // not one that keeps anything in memory
		short, long := early(), early()
		s := &shelf{}
		if backed := rng.IntN(2) == 0; backed {
			l.Back(s)
		}
		for range rng.IntN(50) {
			var chunks []Chunk
			for more := true; more; {
				c := Chunk{Data: []byte(strings.Repeat(`x"é`+"\n", 1+rng.IntN(20)<<rng.IntN(8)))}
				switch rng.IntN(8) {
				case 0:
					c.Stream = Stderr
				case 1:
					c = Chunk{Kind: Item, Data: []byte(`{"type":"text","text":"item"}`)}
				case 2:
					c.Whole = true
				}
				more = rng.IntN(8) == 0
				c.More = more
				chunks = append(chunks, c)
			}
			mustAppend(t, l, chunks...)
			if l.Backed() && rng.IntN(4) > 0 {
				s.keep(l)
			}
		}
		if n := len(s.kept); n > 2 && rng.IntN(2) == 0 { // the middle is gone
			s.kept = slices.Delete(s.kept, 1+rng.IntN(n/2), n/2+1)
		}
		short.pos = min(int64(from), l.Size())
		long.pos = short.pos
		o := PumpOptions{MaxBytes: int(maxBytes)}
		write := func(r *Reader, d Dialect) (lines []byte) {
			p := NewPump(r, d, nil, o)
			for {
				if err := r.load(t.Context()); err != nil {
					t.Fatal(err)
				}
				before := len(lines)
				if lines = p.encode(lines); len(lines) == before {
					return lines
				}
			}
		}
		got := write(short, NewSEP2679(head, "id"))
		want := write(long, slowly{NewSEP2679(head, "id")})
		if !bytes.Equal(got, want) {
			t.Errorf("got\n%.1000s\nwant\n%.1000s", got, want)
		}
		if short.pos != long.pos || short.cost != long.cost {
			t.Errorf("at %d (cost %d), want %d (%d)", short.pos, short.cost, long.pos, long.cost)
		}
	})
}
