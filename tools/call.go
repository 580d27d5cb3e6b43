package tools

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks"
	"runnel/tasks/feed"
	"runnel/tasks/methods"
	"runnel/tasks/run"
)

// call answers tools/call of the handshake era. Every call runs as a task, and differs only in the answer:
// the result for a plain call; for a task-augmented call a handle, or what it chooses by SEP-1905.
func (s *service) call(ctx context.Context, c *rpc.Caller, params json.RawMessage) (any, error) {
	p, e, err := s.called(ctx, c, params)
	if err != nil {
		return nil, err
	}
	augmented, err := s.augmented(c, e, p)
	if err != nil {
		return nil, err
	}
	if augmented {
		return s.callTask(ctx, c, e, p)
	}
	d := s.deliver(c, false, feed.Choose(c, false, ""))
	d.params = p.Raw
	if _, err := s.start(ctx, e, p.Arguments, d, run.Spec{Late: !e.traits.bounded}); err != nil {
		return nil, err
	}
	return s.answer(ctx, e, p, d)
}

// augmented reports whether the call was augmented with a task, and refuses it if the tool does not support
// that: "Servers MUST return a -32601 (Method not found) error if a client does not attempt to" use a task
// where one is required, and SHOULD where it is forbidden (2025-11-25 basic/utilities/tasks, "Tool-Level
// Negotiation"). Older versions have no tasks: there, every tool is simply called.
func (s *service) augmented(c *rpc.Caller, e *entry, p *mcp.CallToolParams) (bool, error) {
	if !c.Version.Tasks {
		return false, nil
	}
	switch support := e.taskSupport(); {
	case p.Task == nil && support == mcp.TaskRequired && !s.o.RequiredFallthrough:
		return false, rpc.Errorf(mcp.CodeMethodNotFound, "tool %q runs only as a task: add \"task\": {} to the params", p.Name)
	case p.Task != nil && support == mcp.TaskForbidden:
		return false, rpc.Errorf(mcp.CodeMethodNotFound, "tool %q cannot run as a task: leave \"task\" out of the params", p.Name)
	}
	return p.Task != nil, nil
}

// callTask answers a task-augmented call.
func (s *service) callTask(ctx context.Context, c *rpc.Caller, e *entry, p *mcp.CallToolParams) (any, error) {
	methods.Used(c).Set()
	mode, fallback := chooseMode(e, p.Task.ResponseModes)
	d := s.deliver(c, true, feed.Choose(c, true, mode))
	d.params = p.Raw
	ttl, err := ttl(p.Task)
	if err != nil {
		return nil, err
	}
	variables, err := callVariables(c)
	if err != nil {
		return nil, err
	}
	run, err := s.start(ctx, e, p.Arguments, d, run.Spec{Handle: true, TTL: ttl, Variables: variables, Merge: mode == mcp.ModeStreaming})
	if err != nil {
		return nil, err
	}
	if slices.Contains(p.Task.ResponseModes, mcp.ModeImmediate) && !d.audience.apart {
		if what, _ := next(ctx, d, run.Worked(), time.After(s.o.ImmediateWait)); what == isWorked || what == isEnded {
			defer s.runner.RecordRetrieved(run.ID())
			return d.immediate()
		}
	}
	if mode == mcp.ModeStreaming {
		first, mark := s.firstResponse(ctx, d)
		return rpc.After{Result: first, Mark: mark, Do: d.Start, Drop: drop(run)}, nil
	}
	handle := run.Handle()
	if fallback {
		handle.Meta[mcp.MetaFallbackMode] = string(mcp.ModeTask)
	}
	// "The response with the handle comes first, then partials."
	return rpc.After{Result: handle, Mark: d.Mark(), Do: d.Start, Drop: drop(run)}, nil
}

// chooseMode chooses the mode of a call that has no immediate result (SEP-1905, "Server Response Decision
// Process"): streaming if the client listed it and the tool's results are "produced incrementally", otherwise
// task. fallback: the client did not list task, which is where "it MUST fall back to" all the same and SHOULD
// say so.
func chooseMode(e *entry, modes []mcp.ResponseMode) (mode mcp.ResponseMode, fallback bool) {
	if slices.Contains(modes, mcp.ModeStreaming) && e.spec.Execution != nil && e.spec.Execution.StreamPartial {
		return mcp.ModeStreaming, false
	}
	return mcp.ModeTask, len(modes) > 0 && !slices.Contains(modes, mcp.ModeTask)
}

// immediate is case 1 of SEP-1905: the whole result, with the completed task that it belongs to. The client
// hears nothing else of that task.
func (d *delivery) immediate() (any, error) {
	run := d.Run
	d.Silence()
	run.Complete()
	run.Delivered()
	<-run.Ended()
	outcome := run.Task().Outcome
	if outcome.Err != nil {
		return nil, outcome.Err
	}
	return tasks.WithRelated(d.audience.dress(d.Caller.Version, outcome.Result), run.ID()), nil
}

// firstResponse is case 3 of SEP-1905: the task, and its output so far. It waits a little for the first
// segment: lastSeqNr 0 is invalid, so an empty first response would leave nothing to resume from.
func (s *service) firstResponse(ctx context.Context, d *delivery) (first json.RawMessage, mark string) {
	run := d.Run
	wait, cancel := context.WithTimeout(ctx, s.o.ImmediateWait)
	defer cancel()
	_ = run.Log().Grown(wait, 0) // the output so far is sent even if this fails
	handle := run.Handle()
	maps.Copy(handle.Meta, tasks.Related(run.ID()))
	task, meta := rawjson.Encode(handle.Task), rawjson.Encode(handle.Meta)
	first, complete := run.Segments().First(task, meta, mcp.MaxPage)
	return first, d.First(complete)
}
