package upstream

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"testing"

	"github.com/rs/zerolog"

	"runnel/partials"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tools"
	"runnel/tools/config"
)

// How many notifications of a server that streams (SEP-2679) are taken in a second, from its pipe to the log
// of the call.
func BenchmarkStreamingServer(b *testing.B) {
	def, err := define("fake", config.Upstream{Command: []string{"fake"}}, config.Base{Dir: b.TempDir()},
		zerolog.Nop())
	if err != nil {
		b.Fatal(err)
	}
	l := newLink(def, &session{}, &subscriptions{log: def.log, byURI: map[string]*subscription{}})
	serverIn, in := io.Pipe()
	out, serverOut := io.Pipe()
	go func() {
		w := bufio.NewWriterSize(serverOut, 64<<10)
		lines := bufio.NewScanner(serverIn)
		for lines.Scan() {
			var m struct {
				ID     json.RawMessage
				Method string
			}
			_ = json.Unmarshal(lines.Bytes(), &m)
			result := `{}`
			switch m.Method {
			case "initialize":
				result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"tasks":{"requests":{"tools":{"call":{}}},"streaming":{"partial":{}}}},"serverInfo":{"name":"fake","version":"1"}}`
			case "tools/call":
				result = `{"task":{"taskId":"t","status":"working","createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttl":null}}`
			case "tasks/result":
				result = `{"content":[]}`
			}
			if m.ID != nil {
				_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", m.ID, result)
			}
			if m.Method == "tools/call" {
				for i := range b.N {
					_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","method":"notifications/tasks/partial","params":{"taskId":"t","seq":%d,"content":[{"type":"text","text":"a line of some length, as builds and tests print them\n"}]}}`+"\n", i)
				}
				_, _ = fmt.Fprintln(w, `{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{"taskId":"t","status":"completed","createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttl":null}}`)
			}
			_ = w.Flush()
		}
	}()
	l.client, err = rpc.Dial(b.Context(),
		rpc.DialOptions{In: in, Out: out, Version: "2025-11-25",
			OnMessage: func([]byte) { l.silence.seen.Add(1) }, OnNotification: l.notification,
			OnRequest: l.request})
	if err != nil {
		b.Fatal(err)
	}
	defer l.client.Close()
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	log := partials.NewLog(nil)
	tool := &mcp.Tool{Name: "t", Execution: &mcp.ToolExecution{TaskSupport: mcp.TaskOptional}}
	b.ResetTimer()
	c, end := l.begin(&tools.Call{Arguments: json.RawMessage(`{}`)}, tools.NewOutput(ctx, log, nil), tool)
	defer end()
	if _, err := c.run(ctx, "t"); err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "notifications/s")
	if n := c.remote.Tracker().Stats(); b.N > 1 && log.Size() == 0 {
		b.Fatalf("nothing came: %+v", n)
	}
}
