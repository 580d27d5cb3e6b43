package feed

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"runnel/partials"
	"runnel/rpc"
	"runnel/rpc/mcp"
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
