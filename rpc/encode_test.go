package rpc

import (
	"encoding/json"
	"testing"

	"runnel/rpc/mcp"
)

// A result that is written by hand is what encoding/json makes of it.
func FuzzToolResult(f *testing.F) {
	for _, s := range []string{`{"type":"text","text":"x"}`, `{ "a" : 1 }`, `"<&>\u2028"`, `[1,2`, `null`, ``, "\"\xff\""} {
		f.Add([]byte(s), []byte(`{"exitCode":0}`), true)
		f.Add([]byte(s), []byte(nil), false)
	}
	f.Fuzz(func(t *testing.T, content, structured []byte, isError bool) {
		r := &mcp.CallToolResult{Content: []mcp.ContentBlock{content, mcp.Text(string(content))}, StructuredContent: structured, IsError: isError}
		fast, slow := newEncoder(), newEncoder()
		if !fast.toolResult(r) {
			if fast.buf.Len() > 0 {
				t.Fatalf("refused, but %s was written", &fast.buf)
			}
			return
		}
		if err := slow.json.Encode(r); err != nil || fast.buf.String()+"\n" != slow.buf.String() {
			t.Fatalf("got %s, want %s (%v)", &fast.buf, &slow.buf, err)
		}
	})
}

func TestTextIsEncoded(t *testing.T) {
	for c := range 0x180 {
		s := "a" + string(rune(c)) + "b"
		want, _ := json.Marshal(mcp.TextContent{Type: "text", Text: s})
		if got := mcp.Text(s); string(got) != string(want) {
			t.Errorf("%q: got %s, want %s", s, got, want)
		}
	}
}
