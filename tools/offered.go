package tools

import (
	"context"

	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tools/schema"
)

// Offered is a tool that only workers have: each call of it is offered to them.
type Offered struct {
	spec   mcp.Tool
	offer  tasks.Offer
	schema *schema.Checker
}

// NewOffered makes a tool of what a worker says of it. offer says how its calls are offered.
func NewOffered(spec mcp.Tool, offer tasks.Offer) *Offered {
	spec.Execution = &mcp.ToolExecution{TaskSupport: mcp.TaskOptional, StreamPartial: true} // that is runnel's to say
	return &Offered{spec: spec, offer: offer, schema: schema.New(spec.InputSchema, "")}
}

// Describe returns the worker's own description.
func (t *Offered) Describe() mcp.Tool { return t.spec }

// Traits returns what the server needs to know.
func (t *Offered) Traits() Traits { return Traits{Detached: true} }

// Replace does nothing: calls that run go on where they are.
func (t *Offered) Replace(Tool) {}

// Call lets a worker run the call. Its arguments are checked here, too: who waits for a worker wants to know at once.
func (t *Offered) Call(ctx context.Context, in *Call, _ *Output) (*mcp.CallToolResult, error) {
	if err := t.schema.Check(in.Arguments); err != nil {
		return mcp.ErrorResult(err.Error()), nil
	}
	return nil, in.Offer(ctx, t.offer, nil)
}
