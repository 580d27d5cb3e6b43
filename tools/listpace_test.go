package tools

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"runnel/rpc/mcp"
)

// A list that changes all the time is told at most once a second, in both eras, and its last change is told.
func TestFlappingListIsToldOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := &Registry{}
		c := serveRegistry(t, registry)
		const open = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}
{"jsonrpc":"2.0","id":2,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}
`
		if _, err := fmt.Fprint(c.in, open); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for i := range 5000 {
			next := &Registry{}
			_ = next.Add(Func(fmt.Sprint("tool", i), "",
				func(context.Context, struct{}, *Output) (*mcp.CallToolResult, error) { return nil, nil }))
			registry.Replace(next)
			time.Sleep(time.Millisecond)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		handshake, subscribed := 0, 0
		for len(c.lines) > 0 {
			switch line := <-c.lines; {
			case !strings.Contains(line, "notifications/tools/list_changed"):
			case strings.Contains(line, mcp.MetaSubscriptionID):
				subscribed++
			default:
				handshake++
			}
		}
		if handshake != 6 || subscribed != 6 {
			t.Errorf("5 s of changes were told %d times to the session, %d times to the subscription",
				handshake, subscribed)
		}
	})
}
