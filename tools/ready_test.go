package tools

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"runnel/rpc/mcp"
)

// A tool that ends right after it was ready has not become so: its call is answered with how it ended. One that
// ends later went on.
func TestEndsRightAfterItWasReady(t *testing.T) {
	for after, want := range map[time.Duration]string{
		0:               `"the port is in use"`,
		provenReady / 2: `"the port is in use"`,
		provenReady * 2: "tool: ready after 1 s: listening\\nIt goes on, as task ",
		time.Minute:     "tool: ready after 1 s: listening\\nIt goes on, as task ",
	} {
		t.Run(after.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := serveStateless(t, &Function{
					Tool: mcp.Tool{Name: "tool", InputSchema: ObjectSchema("", ""),
						Execution: &mcp.ToolExecution{TaskSupport: mcp.TaskOptional}},
					Do: func(_ context.Context, in *Call, _ *Output) (*mcp.CallToolResult, error) {
						time.Sleep(time.Second)
						in.Ready(time.Second, "listening")
						time.Sleep(after)
						return nil, errors.New("the port is in use")
					},
				})
				for id := range 2 {
					began := time.Now()
					c.call(id, `,"arguments":{}`)
					if got := c.response(); !strings.Contains(got, want) {
						t.Errorf("answered with %s", got)
					}
					if took := time.Since(began); took > time.Second+provenReady {
						t.Errorf("answered after %v", took)
					}
				}
			})
		})
	}
}
