package selftest

import (
	"context"
	"encoding/json"
	"math"
	"time"

	"runnel/rpc/mcp"
	"runnel/tools"
)

// written is a tool whose input schema is written down, not inferred from a struct as Func does it: for the tools above that took
// a tenth of a start.
func written(name, description string, support mcp.TaskSupport, properties, required string, do do) *tools.Function {
	return &tools.Function{
		Tool: mcp.Tool{
			Name:        name,
			Description: description,
			InputSchema: json.RawMessage(`{"type":"object","properties":{` + properties + `},"required":[` + required + `],"additionalProperties":false}`),
			Execution:   &mcp.ToolExecution{TaskSupport: support},
		},
		Do: do,
	}
}

// do is what a tool does.
type do = func(context.Context, *tools.Call, *tools.Output) (*mcp.CallToolResult, error)

// typed reads the arguments for f.
func typed[In any](f func(context.Context, In, *tools.Output) (*mcp.CallToolResult, error)) do {
	return func(ctx context.Context, call *tools.Call, out *tools.Output) (*mcp.CallToolResult, error) {
		var in In
		if err := call.Decode(&in); err != nil {
			return nil, err
		}
		return f(ctx, in, out)
	}
}

// soon is for how long nobody minds that a tool which was cancelled goes on.
const soon = 50 * time.Millisecond

// wait waits some milliseconds, or for ctx. To wait for both at once takes a timer, two channels and their memory, which was a tenth of
// what a chunk costs where a thousand tasks write one now and then; a short time is waited for alone.
func wait(ctx context.Context, ms int) error {
	d := min(time.Duration(ms), math.MaxInt64/time.Millisecond) * time.Millisecond
	if d <= soon {
		time.Sleep(d)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
