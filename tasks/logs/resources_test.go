package logs

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/tools/text"
)

// An item that is longer than a page of the log loses its middle.
func TestPageOfALargeItem(t *testing.T) {
	log := partials.NewLog(nil)
	written := make(chan error, 1)
	go func() {
		err := log.Append(t.Context(),
			partials.Chunk{Kind: partials.Item, Data: mcp.Text("head" + strings.Repeat("x", 3<<20) + "tail")},
			partials.Chunk{Data: []byte("more")})
		log.Close()
		written <- err
	}()
	reader := log.NewReader(0) // who lets the writer go on
	defer reader.Close()
	for reader.Wait(t.Context(), 1) == nil {
		reader.Next(1 << 20)
	}
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	text, next, err := AppendText(t.Context(), nil, log, 0, math.MaxInt64, 96<<10, text.WithoutColors)
	if err != nil || len(text) > 96<<10 || next != log.Size() || !bytes.HasPrefix(text, []byte("headx")) ||
		!bytes.HasSuffix(text, []byte("xtailmore")) {
		t.Errorf("%d bytes: %.20q, up to %d of %d, error %v", len(text), text, next, log.Size(), err)
	}
}
