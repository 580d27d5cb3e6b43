package tools

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"runnel/rpc/mcp"
)

// A call that is cancelled while it is parked, as people may from another process, has ended when its client
// comes back: the answer says so, and nothing of its output comes any more, neither before the answer nor
// after it.
func TestCancelledWhileParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tool := &Function{
			Tool: mcp.Tool{Name: "tool", InputSchema: json.RawMessage(`{"type":"object"}`),
				Execution: &mcp.ToolExecution{TaskSupport: mcp.TaskOptional}},
			Do: func(ctx context.Context, call *Call, out *Output) (*mcp.CallToolResult, error) {
				go func() {
					time.Sleep(time.Second)
					_ = out.WriteString("meanwhile\n")
					call.run.Cancel("cancelled by somebody")
				}()
				_, err := call.Ask(ctx, Question{Message: "Why?",
					Schema: json.RawMessage(`{"type":"object","properties":{}}`)})
				return nil, err
			},
		}
		c := serveStateless(t, tool)
		c.call(1, "")
		var first struct{ Result mcp.InputRequiredResult }
		if err := json.Unmarshal([]byte(c.response()), &first); err != nil {
			t.Fatal(err)
		}
		c.silence()
		c.call(2, `,"requestState":"`+first.Result.RequestState+
			`","inputResponses":{"question-1":{"action":"decline"}}`)
		if line := c.next(); !strings.Contains(line, `"id":2,`) || !strings.Contains(line, "cancelled") {
			t.Errorf("not the answer: %s", line)
		}
		c.silence()
	})
}

// The result of a call is in its answer where the partial results of PR #383 did not say it: "content: []"
// stands for what was sent.
func TestCancelledAnswerSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tool := &Function{
			Tool: mcp.Tool{Name: "tool", InputSchema: json.RawMessage(`{"type":"object"}`),
				Execution: &mcp.ToolExecution{TaskSupport: mcp.TaskOptional}},
			Do: func(ctx context.Context, call *Call, out *Output) (*mcp.CallToolResult, error) {
				_ = out.WriteString("before\n")
				time.Sleep(time.Second)
				call.run.Cancel("cancelled by somebody")
				return nil, ctx.Err()
			},
		}
		c := serveStateless(t, tool)
		const meta = `{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"progressToken":1,"partialResults":true}`
		if _, err := io.WriteString(c.in,
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"tool","_meta":`+meta+`}}`+
				"\n"); err != nil {
			t.Fatal(err)
		}
		if line := c.response(); !strings.Contains(line, "The task was cancelled.") {
			t.Errorf("the answer says nothing: %s", line)
		}
	})
}
