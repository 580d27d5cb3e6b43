package tracker

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"runnel/rpc/mcp"
)

// chunk takes content of PR #383, appended.
func (w *watch) chunk(progress int, item string) {
	w.Notification("notifications/progress", fmt.Appendf(nil,
		`{"progressToken":"tok","progress":%d,"partialResult":{"chunk":{"content":[%s]},"append":%t}}`,
		progress, item, progress > 1))
}

// The partial content stands in for a result: it is what the server wrote, whatever that is.
func TestWhatCameIsWhatWasWritten(t *testing.T) {
	for _, item := range []string{
		`{"_meta":{"id":1234567890123456789,"share":0.10},"type":"image"}`,
		`{"_meta":{"far":1e999},"type":"image"}`,
		// \xff stands between items in memory.
		"{\"_meta\":{\"far\":1e999,\"no\":\"\xff\xff\xff\"},\"type\":\"image\"}",
		"{\"no\":\"\xff\xff\xff\",\"type\":\"image\"}",
	} {
		w := newWatch(Options{})
		w.chunk(1, item)
		w.chunk(2, string(mcp.Text("after it")))
		came := w.Came()
		if len(came) != 2 || string(came[0]) != strings.ReplaceAll(item, "\xff", "\ufffd") ||
			string(came[1]) != string(mcp.Text("after it")) {
			t.Errorf("of %q came %q", item, came)
		}
	}
}

// A chunk that comes again is one that came before, not one that is missing: a gap makes a result that
// repeats it another one.
func TestChunkThatComesAgainIsNoGap(t *testing.T) {
	w := newWatch(Options{})
	last := 2*keepRecent + 10
	for n := 1; n <= last; n++ {
		w.chunk(n, string(mcp.Text("x")))
		// A relay sends again what was not acknowledged.
		w.chunk(max(n-keepRecent/2, 1), string(mcp.Text("x")))
	}
	if s := w.Stats(); s.Gaps != 0 || s.Partials != last || s.Duplicates != last {
		t.Errorf("%+v", s)
	}
	if got, _ := w.Compare([]json.RawMessage{mcp.Text(strings.Repeat("x", last) +
		"end")}); got != ResultAdds {
		t.Errorf("the result is %v", got)
	}
}

// The content that is kept of a call stays within its bounds, whatever a server sends.
func TestKeptContentIsBounded(t *testing.T) {
	w := newWatch(Options{})
	w.merged.most = 4000
	end := fmt.Sprintf(`{"type":"text","text":"%s","_meta":{%q:%q}}`, strings.Repeat("x", 1000),
		mcp.MetaStream, mcp.StreamEnd)
	for n := range 100 {
		w.chunk(n+1, end)
	}
	if kept := len(w.merged.flat[ended]); kept > w.merged.most+1000 {
		t.Errorf("%d bytes of ends are kept for comparing", kept)
	}
	w.chunk(101, string(mcp.Text(strings.Repeat("x", 1<<20))))
	if kept := cap(w.ranged.tail); kept > 8*rangeOverlap {
		t.Errorf("%d bytes are held for the last %d", kept, rangeOverlap)
	}
	// A line of tiny items takes many times its length in memory.
	w = newWatch(Options{})
	w.bound = 64 << 10
	for n := range 20 {
		w.Notification("notifications/tools/partial_result",
			fmt.Appendf(nil, `{"partialResultToken":"tok","seq":%d,"content":[0%s]}`, n+1,
				strings.Repeat(",0", 1000)))
	}
	items := 0
	for _, held := range w.seq.held {
		items += len(held.items)
	}
	if items*24 > w.bound {
		t.Errorf("%d items are held, within %d bytes", items, w.bound)
	}
}
