package tools

import (
	"context"

	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tools/schema"
)

// offered is a tool that only workers have: each call is offered to them.
type offered struct {
	spec   mcp.Tool
	offer  tasks.Offer
	schema *schema.Checker
}

// NewOffered makes a tool from a worker's description. offer says how its calls are offered.
// Add it to a Registry, so that clients can call a tool which only workers have.
func NewOffered(spec mcp.Tool, offer tasks.Offer) Tool {
	spec.Execution = &mcp.ToolExecution{TaskSupport: mcp.TaskOptional, StreamPartial: true} // runnel decides that
	return &offered{spec: spec, offer: offer, schema: schema.New(spec.InputSchema, "")}
}

// Describe returns the worker's own description.
func (t *offered) Describe() mcp.Tool { return t.spec }

// Traits returns what the server needs to know about it.
func (t *offered) Traits() Traits { return Traits{Detached: true} }

// Replace does nothing: running calls continue where they are.
func (t *offered) Replace(Tool) {}

// Call lets a worker run the call. The arguments are checked here, too, so that a mistake is reported at once
// and not only by a worker.
func (t *offered) Call(ctx context.Context, in *Call, _ *Output) (*mcp.CallToolResult, error) {
	fitted, err := t.schema.Fit(in.Arguments)
	if err != nil {
		return mcp.ErrorResult(err.Error()), nil
	}
	in.Arguments = fitted
	return nil, in.Offer(ctx, t.offer, nil)
}
