package tools

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"time"

	"github.com/rs/zerolog"

	"runnel/partials"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tasks"
)

// ServeOptions are how output is delivered.
type ServeOptions struct {
	Pump partials.PumpOptions
	Log  zerolog.Logger
}

type service struct {
	registry *Registry
	runner   *tasks.Runner
	o        ServeOptions
}

// Serve adds tools/list and tools/call to srv.
func Serve(srv *rpc.Server, registry *Registry, runner *tasks.Runner, o ServeOptions) {
	s := &service{registry: registry, runner: runner, o: o}
	srv.Declare(func(_ *mcp.Version, caps *mcp.ServerCapabilities) { caps.Tools = &mcp.ToolsCapability{} })
	srv.Handle(rpc.Handshake, "tools/list", s.list)
	srv.Handle(rpc.Handshake, "tools/call", s.call)
}

func (s *service) list(_ context.Context, c *rpc.Caller, params json.RawMessage) (any, error) {
	var p mcp.ListToolsParams
	if len(params) > 0 {
		if err := json.Unmarshal(params, &p); err != nil {
			return nil, rpc.Errorf(mcp.CodeInvalidParams, "params.cursor must be a string")
		}
	}
	return s.registry.list(c.Version, p.Cursor)
}

// call answers tools/call. Every call runs as a task: with a handle if the client asked for one,
// else the client waits for it here.
func (s *service) call(ctx context.Context, c *rpc.Caller, params json.RawMessage) (any, error) {
	p, err := callParams(params)
	if err != nil {
		return nil, err
	}
	e := s.registry.lookup(p.Name)
	if e == nil {
		return nil, rpc.Errorf(mcp.CodeInvalidParams, "unknown tool: %q", p.Name)
	}
	handle, err := wantsHandle(c, e, p)
	if err != nil {
		return nil, err
	}
	d := s.choose(c, handle)
	spec := tasks.Spec{
		Tool:    p.Name,
		Handle:  handle,
		Prepare: d.prepare,
		Work: func(ctx context.Context, run *tasks.Run) (*mcp.CallToolResult, string, error) {
			return e.run(ctx, &Call{Arguments: p.Arguments, TaskID: run.ID()}, run.Log(), d.report)
		},
	}
	if handle {
		if spec.TTL, err = ttl(p.Task); err != nil {
			return nil, err
		}
		spec.Status = func(t mcp.Task) {
			if t.Status.Terminal() {
				_ = c.Notify("notifications/tasks/status", t) // fails only when nobody is there to read it
			}
		}
	}
	run, err := s.runner.Start(ctx, spec)
	if err != nil {
		return nil, err
	}
	if handle {
		// "The response with the handle comes first, then partials."
		return rpc.After{
			Result: run.Handle(),
			Do:     func() { run.Deliver(d.deliver) },
			Drop:   func() { run.Cancel("cancelled by the client") },
		}, nil
	}
	run.Deliver(d.deliver)
	select {
	case <-run.Ended():
	case <-ctx.Done():
		run.Cancel("cancelled by the client")
		return nil, context.Cause(ctx)
	}
	outcome := run.Task().Outcome
	if outcome.Err != nil {
		return nil, outcome.Err
	}
	return dressResult(c.Version, outcome.Result), nil
}

func callParams(params json.RawMessage) (*mcp.CallToolParams, error) {
	var p mcp.CallToolParams
	if err := json.Unmarshal(params, &p); err != nil {
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) {
			return nil, rpc.Errorf(mcp.CodeInvalidParams, "params.%s: a JSON %s does not belong there", wrong.Field, wrong.Value)
		}
		return nil, rpc.Errorf(mcp.CodeInvalidParams, "params must be an object with a name and arguments")
	}
	if p.Name == "" {
		return nil, rpc.Errorf(mcp.CodeInvalidParams, "params.name must be a tool's name")
	}
	switch {
	case len(p.Arguments) == 0 || string(p.Arguments) == "null":
		p.Arguments = json.RawMessage("{}")
	case p.Arguments[0] != '{':
		return nil, rpc.Errorf(mcp.CodeInvalidParams, "params.arguments must be an object")
	}
	return &p, nil
}

// wantsHandle tells whether the call was augmented with a task, and refuses what the tool does not
// support: "Servers MUST return a -32601 (Method not found) error if a client does not attempt to"
// use a task where one is required, and SHOULD where it is forbidden (2025-11-25 basic/utilities/tasks,
// "Tool-Level Negotiation"). Older versions have no tasks: there, every tool is simply called.
func wantsHandle(c *rpc.Caller, e *entry, p *mcp.CallToolParams) (bool, error) {
	if !c.Version.Tasks {
		return false, nil
	}
	switch support := e.taskSupport(); {
	case p.Task == nil && support == mcp.TaskRequired:
		return false, rpc.Errorf(mcp.CodeMethodNotFound, "tool %q runs only as a task: add \"task\": {} to the params", p.Name)
	case p.Task != nil && support == mcp.TaskForbidden:
		return false, rpc.Errorf(mcp.CodeMethodNotFound, "tool %q cannot run as a task: leave \"task\" out of the params", p.Name)
	}
	return p.Task != nil, nil
}

// ttl reads the ttl that a client asks for, in milliseconds; 0 if it asks for none. null asks for the longest.
func ttl(t *mcp.TaskMetadata) (time.Duration, error) {
	const longest = time.Duration(math.MaxInt64)
	if len(t.TTL) == 0 {
		return 0, nil
	}
	if string(t.TTL) == "null" {
		return longest, nil
	}
	var ms float64
	if err := json.Unmarshal(t.TTL, &ms); err != nil || ms < 0 {
		return 0, rpc.Errorf(mcp.CodeInvalidParams, "params.task.ttl must be a number of milliseconds, or null")
	}
	if ms > float64(longest/time.Millisecond) {
		return longest, nil
	}
	return max(time.Duration(ms*float64(time.Millisecond)), 1), nil // 1: asked for, if only for next to nothing
}
