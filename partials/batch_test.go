package partials

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
)

// Whatever is written and however much is read at once, batches follow each other and carry all of it; what
// is cut and put together again is the same.
func FuzzBatches(f *testing.F) {
	for seed := range uint64(30) {
		f.Add(seed, uint16(200*seed))
	}
	f.Fuzz(func(t *testing.T, seed uint64, limit uint16) {
		rng := rand.New(rand.NewPCG(seed, 0))
		l := NewLog(nil)
		r := l.NewReader(0)
		var want []byte
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
				chunks, want = append(chunks, c), append(want, c.Data...)
			}
			mustAppend(t, l, chunks...)
		}
		var got []byte
		for pos := int64(0); ; {
			b, ok := r.Next(int(limit))
			if !ok {
				break
			}
			if b.Start != pos || b.End != pos+int64(len(b.bytes())) || b.End == pos {
				t.Fatalf("a batch from %d to %d of %d bytes comes after %d", b.Start, b.End,
					len(b.bytes()), pos)
			}
			pos = b.End
			got = append(got, b.bytes()...)
			rest, again := b, Batch{Start: b.Start, End: b.Start}
			again.add(rest.cut(b.Start + rng.Int64N(b.End-b.Start+1)))
			again.add(rest)
			if !bytes.Equal(again.bytes(), b.bytes()) || again.End != b.End || rest.End != b.End {
				t.Fatalf("a batch from %d to %d is cut and put together to one from %d to %d", b.Start, b.End,
					again.Start, again.End)
			}
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%d bytes were read of %d", len(got), len(want))
		}
	})
}
