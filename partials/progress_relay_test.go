package partials

import (
	"encoding/json"
	"testing"
)

// What another server reports passes as it is; a sign of life in between is above it, and below what comes
// next.
func TestProgressRelays(t *testing.T) {
	p := NewProgress([]byte(`{"jsonrpc":"2.0"`), json.RawMessage(`"t"`), "", true)
	p.Relay()
	dst := p.Heartbeat(nil, []byte("running"))
	for range 2 {
		dst = p.Pass(dst, json.RawMessage(`{"progressToken":"theirs","progress":0.5,"total":3,"x":1e400}`),
			0.5, 3, "")
		dst = p.Encode(dst, NewBatch(0, Chunk{Stream: Stderr, Data: []byte("a log line\n")}))
		dst = p.Heartbeat(dst, []byte("running"))
	}
	const pass, beat = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":0.5,"total":3,"x":1e400}}` + "\n", `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":0.500001,"total":3,"message":"running"}}` + "\n"
	if want := `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":0.000001,"message":"running"}}` + "\n" + pass + beat + pass + beat; string(dst) != want {
		t.Errorf("got\n%swant\n%s", dst, want)
	}
}
