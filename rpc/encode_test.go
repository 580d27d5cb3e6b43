package rpc

import (
	"encoding/json"
	"testing"

	"runnel/rpc/mcp"
)

func TestTextIsEncoded(t *testing.T) {
	for c := range 0x180 {
		s := "a" + string(rune(c)) + "b"
		want, _ := json.Marshal(mcp.TextContent{Type: "text", Text: s})
		if got := mcp.Text(s); string(got) != string(want) {
			t.Errorf("%q: got %s, want %s", s, got, want)
		}
	}
}
