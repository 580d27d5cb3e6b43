package feed

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"runnel/partials"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tasks"
)

// Members that a version does not know are taken out of an item of content, and nothing else is changed,
// whatever the item is.
func TestContent(t *testing.T) {
	v := mcp.LookupVersion("2025-03-26")
	for item, want := range map[string]string{
		`{"type":"text","text":"a","_meta":{}}`: `{"type":"text","text":"a"}`,
		`{"type":"text", "text":"a"}`:           `{"type":"text", "text":"a"}`,
		`"text"`:                                `"text"`,
	} {
		if got := Content(v, mcp.ContentBlock(item)); string(got) != want {
			t.Errorf("%s: %s, want %s", item, got, want)
		}
	}
}

// The content of another server passes unchanged, also on a connection that continues after a mark; that of
// runnel's own tools is what the version knows.
func TestRelayedContent(t *testing.T) {
	const item = `{"type":"text","text":"a","_meta":{"x":1}}`
	caller := &rpc.Caller{Version: mcp.LookupVersion("2025-03-26")}
	for _, relays := range []bool{true, false} {
		o := origin{Task: "task", Spelling: PR383, Token: json.RawMessage(`1`), Relays: relays}
		text, _ := json.Marshal(o)
		p, err := parseMark((&marked{nil, base64.RawURLEncoding.EncodeToString(text), 0}).mark(0, 0))
		if err != nil || p.Relays != relays {
			t.Fatalf("%+v, %v", p, err)
		}
		segments := partials.NewSegments(partials.NewLog(nil))
		segments.Finish(partials.Ending{Rest: []json.RawMessage{[]byte(item)}})
		ending := func() partials.Ending { return p.ending(caller.Version, segments) }
		d := p.dialect(caller, p.progress(caller), segments, ending)
		line := d.Encode(nil, partials.NewBatch(0, partials.Chunk{Kind: partials.Item, Data: []byte(item)}))
		line = d.End(line)
		if n := strings.Count(string(line), item); n != 2 && relays || n != 0 && !relays {
			t.Errorf("relays %v: %s", relays, line)
		}
	}
}

// lines is a lane that keeps what is written.
type lines struct{ written []string }

func (l *lines) Write(_ context.Context, encode func(dst []byte) []byte) error {
	l.written = append(l.written, string(encode(nil)))
	return nil
}

// Progress of another server keeps its place among the server's other messages, which are not held back: it
// waits only where a handle comes first.
func TestRelayedProgressKeepsItsPlace(t *testing.T) {
	caller := &rpc.Caller{Version: mcp.LookupVersion("2025-11-25")}
	for _, handle := range []bool{false, true} {
		lane := &lines{}
		f := &Feed{Caller: caller, Handle: handle, ctx: t.Context(),
			origin: origin{Spelling: ByProgress, Token: json.RawMessage(`"mine"`), Relays: true}}
		f.gate.Lane = lane
		f.progress = f.origin.progress(caller)
		for n := range 2 {
			f.Report(tasks.Progress{Done: float64(n)},
				json.RawMessage(`{"progress":`+strconv.Itoa(n)+`,"x":1}`))
		}
		got := strings.Join(lane.written, "")
		if handle && (got != "" || len(f.passed) != 2) {
			t.Errorf("before the handle: %s, and %d are kept", got, len(f.passed))
		}
		if !handle && !strings.Contains(got, `"progress":0,"x":1}}`+"\n") ||
			!handle && len(lane.written) != 2 {
			t.Errorf("written is %q", got)
		}
	}
}
