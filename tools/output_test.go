package tools

import (
	"bytes"
	"context"
	"testing"
	"unicode/utf8"

	"runnel/partials"
	"runnel/tools/text"
)

// Output goes into the log as valid text, wherever characters are cut, and each chunk of it is whole.
func FuzzTextWriter(f *testing.F) {
	f.Add([]byte("plain ä€😀 text"), uint8(3))
	f.Add([]byte("\xff\xc3(\xe2\x82\xac\xf0\x9f\x98"), uint8(2))
	f.Add([]byte("ä"), uint8(1))
	f.Fuzz(func(t *testing.T, said []byte, step uint8) {
		log := partials.NewLog(nil)
		out := NewOutput(context.Background(), log, nil)
		for rest := said; len(rest) > 0; {
			n := min(int(step)+1, len(rest))
			if m, err := out.Write(rest[:n]); m != n || err != nil {
				t.Fatalf("%d, %v", m, err)
			}
			rest = rest[n:]
		}
		out.flush()
		var whole []byte
		for _, chunk := range allChunks(t, log) {
			if !utf8.Valid(chunk.Data) {
				t.Fatalf("chunk %q", chunk.Data)
			}
			whole = append(whole, chunk.Data...)
		}
		if valid := text.Valid(said); !bytes.Equal(whole, valid) {
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
