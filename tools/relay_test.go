package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"runnel/rpc/mcp"
)

// A server's request to show a page is not put as a form to a session that waits for the task's result, and
// what is wrong in it harms nobody.
func TestPagesAreNotPutAsForms(t *testing.T) {
	c := serveStateless(t, &Function{
		Tool: mcp.Tool{Name: "tool", InputSchema: json.RawMessage(`{"type":"object"}`),
			Execution: &mcp.ToolExecution{TaskSupport: mcp.TaskRequired}},
		Do: func(ctx context.Context, call *Call, _ *Output) (*mcp.CallToolResult, error) {
			page := make(chan error, 1)
			go func() {
				_, err := call.Request(ctx, "elicitation/create",
					json.RawMessage(`{"mode":"url","url":"https://example.com","elicitationId":"1","message":5}`))
				page <- err
			}()
			answer, err := call.Ask(ctx, Question{Message: "Why?"})
			if err != nil {
				return nil, err
			}
			return mcp.Result(string(answer.Action)), <-page
		},
	})
	send := func(format string, a ...any) {
		t.Helper()
		if _, err := fmt.Fprintf(c.in, format+"\n", a...); err != nil {
			t.Fatal(err)
		}
	}
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{},"url":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}}}`
	send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"tool",` + meta + `}}`)
	id := regexp.MustCompile(`"taskId":"([^"]+)"`).FindStringSubmatch(c.response())
	if id == nil {
		t.Fatal("no task")
	}
	for shown := ""; !strings.Contains(shown, "https://example.com") ||
		!strings.Contains(shown, "Why?"); shown = c.response() {
		send(`{"jsonrpc":"2.0","id":2,"method":"tasks/get","params":{"taskId":%q,`+meta+`}}`, id[1])
	}
	send(`{"jsonrpc":"2.0","id":3,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{},"tasks":{}}}}`)
	c.response()
	send(`{"jsonrpc":"2.0","id":4,"method":"tasks/result","params":{"taskId":%q}}`, id[1])
	for line := ""; !strings.Contains(line, "elicitation/create"); line = c.next() {
		if strings.Contains(line, "elicitation/create") && !strings.Contains(line, "Why?") {
			t.Error(line)
		}
	}
}
