package feed

import (
	"testing"

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
