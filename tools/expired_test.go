package tools

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"runnel/rpc/mcp"
)

// A client that waits for a task when its ttl ends it hears that, and not that the task is unknown. One that
// asks later does.
func TestWaitersHearThatTheTTLIsOver(t *testing.T) {
	for method, wait := range map[string]string{
		"tasks/result":    `"method":"tasks/result","params":{"taskId":%q}`,
		"get_task_result": `"method":"tools/call","params":{"name":"get_task_result","arguments":{"task_id":%q}}`,
		"until":           `"method":"tools/call","params":{"name":"get_task_result","arguments":{"task_id":%q,"until":"never"}}`,
	} {
		t.Run(method, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				registry := &Registry{}
				if err := registry.Add(&Function{
					Tool: mcp.Tool{Name: "tool", InputSchema: json.RawMessage(`{"type":"object"}`),
						Execution: &mcp.ToolExecution{TaskSupport: mcp.TaskOptional}},
					Do: func(ctx context.Context, _ *Call, out *Output) (*mcp.CallToolResult, error) {
						_ = out.WriteString("so far\n")
						<-ctx.Done()
						return nil, context.Cause(ctx)
					},
				}); err != nil {
					t.Fatal(err)
				}
				c := serveWithFallback(t, registry, "always")
				c.send(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"tasks":{}}}}`)
				c.response()
				c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
				for range 2 {
					c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"tool","task":{"ttl":10000}}}`)
					id := taskID.FindStringSubmatch(c.response())[1]
					began := time.Now()
					c.send(`{"jsonrpc":"2.0","id":2,`+wait+`}`, id)
					if got := c.response(); !strings.Contains(got, "the task's ttl is over") ||
						!strings.Contains(got, `"isError":true`) || strings.Contains(got, "unknown") ||
						method != "tasks/result" && !strings.Contains(got, "so far") {
						t.Errorf("after %v the client hears %s", time.Since(began), got)
					}
					c.send(`{"jsonrpc":"2.0","id":3,`+wait+`}`, id)
					if got := c.response(); !strings.Contains(got, "is unknown or has expired") &&
						!strings.Contains(got, "-32602") {
						t.Errorf("later it hears %s", got)
					}
				}
			})
		})
	}
}
