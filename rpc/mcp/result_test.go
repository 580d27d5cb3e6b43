package mcp

import (
	"encoding/json"
	"testing"
)

// A result that is stored and read again is what it was: also its numbers, and members that runnel does not
// know.
func TestResultIsWhatItWas(t *testing.T) {
	for _, text := range []string{
		`{"content":[{"type":"text","text":"<a>","n":1e400}],"structuredContent":{"n":1e400},"isError":true,"_meta":{"big":12345678901234567890},"x":{"n":1e400}}`,
		`{"content":[]}`,
		`{"content":null,"x":1}`,
	} {
		var result CallToolResult
		for range 2 {
			if err := json.Unmarshal([]byte(text), &result); err != nil {
				t.Fatal(err)
			}
			if encoded := string(encode(result)); encoded != string(encode(json.RawMessage(text))) {
				t.Errorf("%s becomes %s", text, encoded)
			}
			if encoded := string(encode(&CompleteResult{ResultComplete,
				result})); encoded != `{"resultType":"complete",`+string(encode(json.RawMessage(text)))[1:] {
				t.Errorf("%s becomes %s", text, encoded)
			}
		}
	}
}
