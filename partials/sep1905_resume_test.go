package partials

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
)

// A client that resumes from far back gets no more at once than is read at once: a line for each batch, after
// which it can resume again.
func TestResumedSEP1905IsReadInBatches(t *testing.T) {
	t.Parallel()
	log := NewLog(&LogOptions{MaxPending: 8 << 20})
	want := ""
	for i := range 400 {
		text := strings.Repeat(string(rune('a'+i%26)), 5000) + "\n"
		want += text
		if err := log.Append(t.Context(), Chunk{Data: []byte(text)}); err != nil {
			t.Fatal(err)
		}
	}
	segments := NewSegments(log)
	segments.Finish(Ending{})
	segments.Number(math.MaxInt64)
	log.Close()
	d := NewSEP1905([]byte(`{"jsonrpc":"2.0"`), json.RawMessage(`1`), "id", segments)
	d.Resume(0)
	r := log.NewReader(segments.EndOf(0))
	defer r.Close()
	got := ""
	take := func(lines []byte) {
		for line := range bytes.Lines(lines) {
			p, err := DecodeSEP1905(line)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range p.Segments {
				var item struct{ Text string }
				if err := json.Unmarshal(s.Item, &item); err != nil {
					t.Fatal(err)
				}
				got += item.Text
			}
		}
	}
	for {
		b, ok := r.Next(DefaultMaxBytes)
		if !ok {
			break
		}
		lines := d.Encode(nil, b)
		if len(lines) > 4*DefaultMaxBytes || bytes.Count(lines, []byte("\n")) > 1 {
			t.Fatalf("%d bytes in %d lines", len(lines), bytes.Count(lines, []byte("\n")))
		}
		take(lines)
	}
	take(d.End(nil))
	if got != want {
		t.Errorf("%d bytes of %d", len(got), len(want))
	}
}
