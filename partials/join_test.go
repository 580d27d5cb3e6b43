package partials

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// A reader that joins text reads what one reads that does not, in the same batches, and is as far behind.
func TestJoinedTextIsTheSame(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 0))
		log := NewLog(nil)
		joined, plain := log.NewReader(0), log.NewReader(0)
		joined.joins = true
		limit := 1 + rng.IntN(5000)
		for range 300 {
			if err := log.Append(t.Context(), randomWrite(rng)...); err != nil {
				t.Fatal(err)
			}
			if rng.IntN(3) > 0 {
				continue
			}
			for {
				a, ok := joined.Next(limit)
				b, also := plain.Next(limit)
				if ok != also || a.Start != b.Start || a.End != b.End || joined.cost != plain.cost {
					t.Fatalf("seed %d: joined %v %d to %d, cost %d; plain %v %d to %d, cost %d",
						seed, ok, a.Start, a.End, joined.cost, also, b.Start, b.End, plain.cost)
				}
				if !ok {
					break
				}
				if got, want := appendContent(nil, a.Chunks), appendContent(nil, b.Chunks); !bytes.Equal(got, want) {
					t.Fatalf("seed %d: joined %s\nplain %s", seed, got, want)
				}
				if len(a.Chunks) > len(b.Chunks) {
					t.Fatalf("seed %d: %d joined chunks of %d", seed, len(a.Chunks), len(b.Chunks))
				}
			}
		}
	}
}

// randomWrite is a write of one to three chunks of any kind.
func randomWrite(rng *rand.Rand) []Chunk {
	n := 1 + rng.IntN(3)
	if rng.IntN(3) > 0 {
		n = 1
	}
	chunks := make([]Chunk, n)
	for i := range chunks {
		c := &chunks[i]
		c.More = i < n-1
		if rng.IntN(8) == 0 {
			c.Kind, c.Data = Item, fmt.Appendf(nil, `{"type":"image","data":"%0*d"}`, rng.IntN(60), i)
			continue
		}
		c.Data = []byte(strings.Repeat("ä line\n", 1+rng.IntN(20)))
		c.Whole = rng.IntN(8) == 0
		if rng.IntN(4) == 0 {
			c.Stream = Stderr
		}
	}
	return chunks
}
