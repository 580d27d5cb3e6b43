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

// A call that is cancelled while it is parked, as people may from another process, has ended when its client comes back: the answer says
// so, and nothing of its output comes any more, neither before the answer nor after it.
func TestCancelledWhileParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tool := &Function{
			Tool: mcp.Tool{Name: "tool", InputSchema: json.RawMessage(`{"type":"object"}`), Execution: &mcp.ToolExecution{TaskSupport: mcp.TaskOptional}},
			Do: func(ctx context.Context, call *Call, out *Output) (*mcp.CallToolResult, error) {
				go func() {
					time.Sleep(time.Second)
					_ = out.WriteString("meanwhile\n")
					call.run.Cancel("cancelled by somebody")
				}()
				_, err := call.Ask(ctx, Question{Message: "Why?", Schema: json.RawMessage(`{"type":"object","properties":{}}`)})
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
		c.call(2, `,"requestState":"`+first.Result.RequestState+`","inputResponses":{"question-1":{"action":"decline"}}`)
		if line := c.next(); !strings.Contains(line, `"id":2,`) || !strings.Contains(line, "cancelled") {
			t.Errorf("not the answer: %s", line)
		}
		c.silence()
	})
}
