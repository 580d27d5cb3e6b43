package upstream

import (
	"context"

	"runnel/rpc/mcp"
	"runnel/tools"
	"runnel/tools/config"
)

// servedTool is one tool of a server.
type servedTool struct {
	set  *Set
	u    *Server
	spec mcp.Tool // as the server describes it
}

// ServerOf names the server that a tool is from, "" if it is from none.
func ServerOf(t tools.Tool) string {
	if served, ok := t.(*servedTool); ok {
		return served.u.name
	}
	return ""
}

// Describe returns the server's own description, with the prefix; how the tool can be called is runnel's to say.
func (t *servedTool) Describe() mcp.Tool {
	spec := t.spec
	spec.Name = t.u.config.Prefix + spec.Name
	spec.Execution = &mcp.ToolExecution{TaskSupport: mcp.TaskOptional, StreamPartial: true}
	return spec
}

// Call calls the tool at the server and writes what comes of it to out. What the server says is passed on as it is: content of any
// kind, errors, questions. A server that dies or hangs gives an error that says so.
func (t *servedTool) Call(ctx context.Context, in *tools.Call, out *tools.Output) (*mcp.CallToolResult, error) {
	l, err := t.set.enter(ctx, t.u)
	if err != nil {
		return nil, err
	}
	defer t.u.busy.RUnlock()
	out.Log().SetLimit(int64(config.DefaultMaxOutput))
	c, end := l.begin(in, out, &t.spec)
	defer end()
	raw, err := c.run(ctx, t.spec.Name)
	switch {
	case err == nil:
		return c.result(raw)
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	return nil, c.callError(l.why(err))
}
