package logs

import (
	"bytes"
	"math"
	"testing"

	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/sqlite"
	"runnel/tasks/statetest"
	"runnel/tools/text"
)

// BenchmarkStoredPage is the cost of a page of a log that the state on disk keeps: 50-byte lines, read from
// its beginning.
func BenchmarkStoredPage(b *testing.B) {
	s := sqlite.New(sqlite.Options{Dir: b.TempDir()})
	defer func() { _ = s.Close() }()
	t := statetest.Working("long")
	if err := s.Open(tasks.DefaultOwner).Put(b.Context(), t); err != nil {
		b.Fatal(err)
	}
	line := bytes.Repeat([]byte("x"), 49)
	for range 2 << 20 / 50 {
		if err := t.Log.Append(b.Context(), partials.Chunk{Data: append(line, '\n')}); err != nil {
			b.Fatal(err)
		}
	}
	t.Log.Close()
	b.SetBytes(mcp.MaxPage)
	page := make([]byte, 0, 2*mcp.MaxPage)
	for b.Loop() {
		var err error
		if page, _, err = AppendText(b.Context(), page[:0], t.Log, 0, math.MaxInt64, mcp.MaxPage,
			text.WithoutColors); err != nil || len(page) < mcp.MaxPage*9/10 {
			b.Fatal(len(page), err)
		}
	}
}
