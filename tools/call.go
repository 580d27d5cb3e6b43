package tools

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
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
	if c.Version.Tasks { // older versions have no tasks: there, every tool is simply called
		// "Servers MUST return a -32601 (Method not found) error if a client does not attempt to" use a task
		// where one is required, and SHOULD where it is forbidden (2025-11-25 basic/utilities/tasks,
		// "Tool-Level Negotiation").
		switch support := e.taskSupport(); {
		case p.Task == nil && support == mcp.TaskRequired && !s.o.RequiredFallthrough:
			return nil, rpc.Errorf(mcp.CodeMethodNotFound,
				"tool %q runs only as a task: add \"task\": {} to the params", p.Name)
		case p.Task != nil && support == mcp.TaskForbidden:
			return nil, rpc.Errorf(mcp.CodeMethodNotFound,
				"tool %q cannot run as a task: leave \"task\" out of the params", p.Name)
		case p.Task != nil:
			return s.callTask(ctx, c, e, p)
		}
	}
	d := s.deliver(c, false, feed.Choose(c, false, ""))
	d.params = p.Raw
	if _, err := s.start(ctx, e, p.Arguments, d, run.Spec{Late: !e.traits.bounded}); err != nil {
		return nil, err
	}
	return s.answer(ctx, e, p, d)
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
	run, err := s.start(ctx, e, p.Arguments, d,
		run.Spec{Handle: true, TTL: ttl, Variables: variables, Merge: mode == mcp.ModeStreaming})
	if err != nil {
		return nil, err
	}
	if slices.Contains(p.Task.ResponseModes, mcp.ModeImmediate) && !d.audience.apart {
		if what, _ := next(ctx, d, run.Worked(), time.After(s.o.ImmediateWait), nil); what == isReached ||
			what == isEnded {
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
	if slices.Contains(modes, mcp.ModeStreaming) && e.spec.Execution != nil &&
		e.spec.Execution.StreamPartial {
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
	outcome := run.Outcome()
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

// callParams reads the params of a call. It ignores a member that the version does not know, whatever its
// value: "Receivers that do not declare the task capability [...] MUST process requests of that type
// normally, ignoring any task-augmentation metadata" (2025-11-25 basic/utilities/tasks), and since 2026-07-28
// "servers MUST ignore it (treat the field as unknown)" (SEP-2663).
//
// It refuses what JSON readers interpret differently: "Name" for "name", and a member that is there twice. A
// filter that looks at calls on their way, and lets only some tools through, must see the tool that is really
// called.
func callParams(v *mcp.Version, params json.RawMessage) (*mcp.CallToolParams, error) {
	if !rawjson.IsObject(params) {
		return nil, rpc.Errorf(mcp.CodeInvalidParams, "params must be an object with a name and arguments")
	}
	p := &mcp.CallToolParams{Raw: params}
	var seen [len(callMembers)]bool
	for it := rawjson.Over(params); it.Next(); {
		name, value := string(it.Name), it.Value
		i := slices.IndexFunc(callMembers[:],
			func(known string) bool { return strings.EqualFold(known, name) })
		switch {
		case i < 0:
			continue
		case callMembers[i] != name:
			return nil, rpc.Errorf(mcp.CodeInvalidParams, "params.%s is written %q", name, callMembers[i])
		case seen[i]:
			return nil, rpc.Errorf(mcp.CodeInvalidParams, "params.%s is there twice", name)
		}
		seen[i] = true
		var err error
		switch member := callMembers[i]; {
		case member == "name":
			p.Name = rawjson.Unquote(value)
		case member == "arguments":
			p.Arguments = value
		case member == "task" && v.Tasks:
			err = rpc.ReadParam("params."+member, value, &p.Task)
		case member == "inputResponses" && v.Stateless:
			err = rpc.ReadParam("params."+member, value, &p.InputResponses)
		case member == "requestState" && v.Stateless:
			err = rpc.ReadParam("params."+member, value, &p.RequestState)
		}
		if err != nil {
			return nil, err
		}
	}
	switch {
	case p.Name == "":
		return nil, rpc.Errorf(mcp.CodeInvalidParams, "params.name must be a tool's name")
	case len(p.Arguments) == 0 || string(p.Arguments) == "null":
		p.Arguments = json.RawMessage("{}")
	case p.Arguments[0] != '{':
		return nil, rpc.Errorf(mcp.CodeInvalidParams, "params.arguments must be an object")
	}
	return p, nil
}

// callMembers are the members that the params of a call may have.
var callMembers = [...]string{"name", "arguments", "task", "inputResponses", "requestState", "_meta"}

// callVariables returns the initial variables of a call's task, nil if there are none.
func callVariables(c *rpc.Caller) (json.RawMessage, error) {
	if len(c.Meta.Variables) == 0 {
		return nil, nil
	}
	err := tasks.CheckVariables(c.Meta.Variables)
	variables := json.RawMessage(nil)
	if err == nil {
		variables, err = tasks.MergeVariables(nil, c.Meta.Variables)
	}
	if refused, ok := errors.AsType[*rpc.Error](err); ok {
		return nil, rpc.Errorf(mcp.CodeInvalidParams, "params._meta[%q]: %s", mcp.MetaVariables,
			refused.Message)
	}
	return variables, err
}

// ttl reads the ttl that a client asks for, in milliseconds; 0 if it asks for none. null asks for the longest
// one.
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
		return 0, rpc.Errorf(mcp.CodeInvalidParams,
			"params.task.ttl must be a number of milliseconds, 0 or more, or null")
	}
	if ms > float64(longest/time.Millisecond) {
		return longest, nil
	}
	return max(time.Duration(ms*float64(time.Millisecond)), 1), nil // at least 1, since a ttl was asked for
}
