package upstream

import (
	"context"
	"encoding/json"

	"runnel/rpc/mcp"
	"runnel/tools"
	"runnel/tools/config"
)

// servedTool is one tool of a server.
type servedTool struct {
	set  *Set
	u    *Server
	spec mcp.Tool // as the server describes it
	name string   // with the prefix, for clients
}

// ServerOf returns the name of the server that has a tool, "" if the tool is runnel's own.
func ServerOf(t tools.Tool) string {
	if served, ok := t.(*servedTool); ok {
		return served.u.name
	}
	return ""
}

// Describe returns the server's own description with the prefix, but with runnel's ways to call the tool.
func (t *servedTool) Describe() mcp.Tool {
	spec := t.spec
	spec.Name = t.name
	spec.Execution = &mcp.ToolExecution{TaskSupport: mcp.TaskOptional, StreamPartial: true}
	return spec
}

// Traits returns what the server needs to know about it.
func (t *servedTool) Traits() tools.Traits { return tools.Traits{Relays: true} }

// Replace does nothing: calls of the tool before continue.
func (t *servedTool) Replace(tools.Tool) {}

// Call calls the tool at the server and writes its output to out. Content of any kind, errors and questions
// are passed on as they are. If the server dies or hangs, the error says so.
func (t *servedTool) Call(ctx context.Context, in *tools.Call,
	out *tools.Output) (*mcp.CallToolResult, error) {
	out.Log().SetLimit(int64(config.DefaultMaxOutput))
	var c *call
	var raw json.RawMessage
	var refused error
	l, err := t.set.enter(ctx, t.u, func(l *link) (ran bool, err error) {
		if c == nil { // not a second time
			if refused = in.Begin(ctx); refused != nil {
				return false, refused
			}
		}
		l.forwards.release(ctx, in.Caller(), in.Request)
		var end func()
		c, end = l.begin(in, out, &t.spec)
		defer end()
		raw, err = c.run(ctx, t.spec.Name)
		return c.remote.Tracker().TaskID() != "", err
	})
	switch {
	case err == nil:
		in.Said.Passed = true
		return c.result(raw)
	case l == nil || refused != nil:
		return nil, err
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	return nil, c.callError(l.why(err))
}
