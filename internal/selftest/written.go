package selftest

import (
	"context"
	"math"
	"time"

	"runnel/rpc/mcp"
	"runnel/tools"
)

// written makes a tool with a written input schema. Func would infer it from a struct, which took a tenth of
// a start for the tools of this package.
func written(name, description string, support mcp.TaskSupport, properties, required string,
	do do) *tools.Function {
	return &tools.Function{
		Tool: mcp.Tool{
			Name:        name,
			Description: description,
			InputSchema: tools.ObjectSchema(properties, required),
			Execution:   &mcp.ToolExecution{TaskSupport: support},
		},
		Do: do,
	}
}

// do is the function of a tool.
type do = func(context.Context, *tools.Call, *tools.Output) (*mcp.CallToolResult, error)

// typed makes the function of a tool from one that takes the decoded arguments.
func typed[In any](f func(context.Context, In, *tools.Output) (*mcp.CallToolResult, error)) do {
	return func(ctx context.Context, call *tools.Call, out *tools.Output) (*mcp.CallToolResult, error) {
		var in In
		if err := call.Decode(&in); err != nil {
			return nil, err
		}
		return f(ctx, in, out)
	}
}

// soon is how long a cancelled tool may go on without anybody noticing.
const soon = 50 * time.Millisecond

// wait waits for some milliseconds, or until ctx ends. A short time is slept: waiting for two things takes a
// timer and two channels, which was a tenth of the cost of a chunk with a thousand tasks that write one now
// and then.
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
