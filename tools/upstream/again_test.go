//go:build unix

package upstream

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"runnel/tools/config"
)

// A server at a URL that was restarted answers 404, since it does not know the session. The request never
// ran: it is sent again, once, in a new session. What the server answered otherwise is not sent again.
func TestRestartedServerAtURL(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	session := ""
	sessions := 0
	calls := 0
	far := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		body, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(body, &m)
		mu.Lock()
		defer mu.Unlock()
		answer := func(member, value string) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%q:%s}`, m.ID, member, value)
		}
		switch {
		case r.Method != http.MethodPost:
			w.WriteHeader(http.StatusMethodNotAllowed)
		case m.Method == "server/discover":
			answer("error", `{"code":-32601,"message":"no such method"}`)
		case m.Method == "initialize":
			sessions++
			session = fmt.Sprint("session ", sessions)
			w.Header().Set("Mcp-Session-Id", session)
			answer("result", `{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"resources":{}},"serverInfo":{"name":"far","version":"1"}}`)
		case r.Header.Get("Mcp-Session-Id") != session:
			w.WriteHeader(http.StatusNotFound)
		case m.ID == nil:
			w.WriteHeader(http.StatusAccepted)
		case m.Method == "tools/list":
			answer("result", `{"tools":[{"name":"count","inputSchema":{"type":"object"}}]}`)
		case m.Method == "resources/read":
			answer("result", `{"contents":[{"uri":"x://y","text":"read"}]}`)
		case m.Method == "tools/call":
			calls++
			answer("result", fmt.Sprintf(`{"content":[{"type":"text","text":"call %d"}]}`, calls))
		default:
			answer("result", `{}`)
		}
	}))
	defer far.Close()
	u, err := New("far", config.Upstream{URL: far.URL}, config.Base{Vars: []string{}}, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	u.times.pause, u.times.longest = 10*time.Millisecond, 10*time.Millisecond
	b := newBehind(t, u)
	restart := func() {
		mu.Lock()
		defer mu.Unlock()
		session = "none"
	}
	for i := range 4 {
		if i%2 == 1 {
			restart()
		}
		if got := b.mustCall("count"); got != fmt.Sprint("call ", i+1) {
			t.Errorf("call %d: %q", i+1, got)
		}
	}
	c := serveSet(t, b.Set)
	c.ask(0, "initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`)
	for i := range 2 {
		restart()
		if got := c.ask(i+1, "resources/read",
			`{"uri":"x://y"}`); got != fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"contents":[{"uri":"x://y","text":"read"}]}}`, i+1) {
			t.Errorf("read: %s", got)
		}
	}
}
