package tools

import (
	"bytes"
	"context"
	"testing"

	"runnel/partials"
	"runnel/tools/text"
)

// What is written goes into the log as the slow way writes it, wherever characters are cut.
func FuzzTextWriter(f *testing.F) {
	f.Add([]byte("plain ä€😀 text"), uint8(3))
	f.Add([]byte("\xff\xc3(\xe2\x82\xac\xf0\x9f\x98"), uint8(2))
	f.Add([]byte("ä"), uint8(1))
	f.Fuzz(func(t *testing.T, said []byte, step uint8) {
		fast, slow := partials.NewLog(nil), partials.NewLog(nil)
		a, b := NewOutput(context.Background(), fast, nil), NewOutput(context.Background(), slow, nil)
		for rest := said; len(rest) > 0; {
			n := min(int(step)+1, len(rest))
			if m, err := a.Write(rest[:n]); m != n || err != nil {
				t.Fatalf("%d, %v", m, err)
			}
			if _, err := b.stdout.writeSlowly(rest[:n]); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		a.end()
		b.end()
		got, want := allChunks(t, fast), allChunks(t, slow)
		if len(got) != len(want) {
			t.Fatalf("%d chunks, want %d", len(got), len(want))
		}
		var whole []byte
		for i := range got {
			whole = append(whole, got[i].Data...)
			if !bytes.Equal(got[i].Data, want[i].Data) {
				t.Fatalf("chunk %d is %q, want %q", i, got[i].Data, want[i].Data)
			}
		}
		if valid := text.Valid(said); !bytes.Equal(whole, valid) { // wherever it is cut
			t.Fatalf("%q, want %q", whole, valid)
		}
	})
}

func allChunks(t *testing.T, log *partials.Log) []partials.Chunk {
	b, _, err := log.ReadAt(t.Context(), 0, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return b.Chunks()
}
