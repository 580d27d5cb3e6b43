package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"runnel/partials"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks"
	"runnel/tasks/feed"
	"runnel/tasks/run"
)

// Child is a task that a call has made of another tool of this runnel. It has an id and a log of its own, is
// listed, and belongs to the owner of the call. It is cancelled when the task of the call ends before it.
// The call asks the questions of its tool.
type Child struct {
	run     *run.Run
	begun   chan struct{} // closed by Begin
	release func() bool   // the end of the call's task no longer cancels it
}

// maxDepth is how many tasks may stand above a child: a tool that calls itself, through others or not, would
// otherwise never end.
const maxDepth = 8

// MakeChild makes a child of the call. It is stored when MakeChild returns, but its tool runs from Begin on,
// so that its id can be noted before: a child that is not begun is cancelled with Cancel. The error is for a
// model or a person to read.
func (c *Call) MakeChild(ctx context.Context, tool string, arguments json.RawMessage) (*Child, error) {
	if c.run == nil {
		return nil, errors.New("the call is no task") // in a test
	}
	return c.server.makeChild(ctx, c, tool, arguments)
}

// makeChild implements Call.MakeChild. The child has no client of its own, like a call in a worker.
func (s *service) makeChild(ctx context.Context, parent *Call, tool string,
	arguments json.RawMessage) (*Child, error) {
	if parent.audience.depth == maxDepth {
		return nil, fmt.Errorf("%s has not been started: %d tasks stand above it already", tool, maxDepth)
	}
	e := s.lookup(ctx, parent.caller, tool)
	if e == nil || e.extra || e.forApp {
		return nil, s.unknown(tool)
	}
	if len(arguments) == 0 {
		arguments = json.RawMessage("{}")
	}
	if _, err := e.fit(arguments, s.runner.Secrets()); err != nil {
		return nil, fmt.Errorf("%w; %s has not been started", err, tool)
	}
	d := s.deliver(nil, false, feed.ByResult)
	d.audience.parent, d.audience.depth = parent.audience, parent.audience.depth+1
	d.audience.far.Asks = parent.Asks()
	spec := s.spec(e, arguments, d, run.Spec{Handle: true, TTL: parent.run.Task().TTL, Lasts: true,
		Variables: rawjson.Encode(map[string]string{tasks.AboveNote: parent.TaskID})})
	spec.ClientName = parent.run.Task().Client
	child := &Child{begun: make(chan struct{})}
	work := spec.Work
	spec.Work = func(ctx context.Context, r *run.Run) run.Done {
		select {
		case <-child.begun:
			return work(ctx, r)
		case <-ctx.Done():
			return run.Done{Result: mcp.ErrorResult("it has not begun")}
		}
	}
	var err error
	if child.run, err = s.runner.Make(ctx, spec); err != nil {
		return nil, err
	}
	d.begin(child.run)
	d.Start()
	child.release = context.AfterFunc(parent.run.Context(), func() {
		if !s.runner.Closing() { // otherwise it ends as the call does, or goes on where it runs
			child.Cancel(fmt.Sprintf("task %s, which began it, has ended", parent.TaskID))
		}
	})
	return child, nil
}

// Callable returns the entry in tools/list of a tool of which the call can make a child.
func (c *Call) Callable(ctx context.Context, tool string) (spec mcp.Tool, ok bool) {
	if c.run == nil { // in a test
		return spec, false
	}
	return c.server.callable(ctx, c.caller, tool)
}

// callable implements Call.Callable.
func (s *service) callable(ctx context.Context, c *rpc.Caller, tool string) (spec mcp.Tool, ok bool) {
	e := s.lookup(ctx, c, tool)
	if e == nil || e.extra || e.forApp {
		return spec, false
	}
	return e.spec, true
}

// ID returns the id of the child's task.
func (c *Child) ID() string { return c.run.ID() }

// Begin lets the child's tool run. It is called once.
func (c *Child) Begin() { close(c.begun) }

// Log returns the child's output, which can be read while it runs and later.
func (c *Child) Log() *partials.Log { return c.run.Log() }

// Wait waits for the child's end and returns its task, with the outcome. It does not return before, since a
// child ends soon after the task of its call.
func (c *Child) Wait() tasks.Task {
	<-c.run.Ended()
	c.release()
	return c.run.Task()
}

// Cancel cancels the child, begun or not. It does nothing if the child has ended.
func (c *Child) Cancel(message string) { c.run.Cancel(message) }

// EndOf waits for the end of a task that this call has made in an earlier process, wherever it runs now, and
// returns it. It fails with tasks.ErrNotFound if the task was deleted.
func (c *Call) EndOf(ctx context.Context, id string) (tasks.Task, error) {
	return c.server.tasks().Await(ctx, id)
}

// CancelBegun cancels the tasks that this call has begun and whose ends it has not noted (Remember), also
// those of an earlier process, which a worker may still run. A call does so when it is cancelled.
func (c *Call) CancelBegun(ctx context.Context) {
	c.server.tasks().CancelBegun(ctx, c.run.Task().Variables)
}

// Stored returns a task that this call has made, with its output and its end.
func (c *Call) Stored(ctx context.Context, id string) (tasks.Task, error) {
	return c.server.tasks().Get(ctx, id)
}

// Repeatable reports whether a call of a tool that was cut off may be made again: its Traits say so, or its
// annotations.
func (c *Call) Repeatable(ctx context.Context, tool string) bool {
	return c.server.repeatable(ctx, tool)
}

func (s *service) repeatable(ctx context.Context, tool string) bool {
	e := s.lookup(ctx, nil, tool)
	if e == nil {
		return false
	}
	a := e.spec.Annotations
	says := func(hint *bool) bool { return hint != nil && *hint }
	return e.traits.Repeatable || a != nil && (says(a.IdempotentHint) || says(a.ReadOnlyHint))
}

// tasks returns the runner of the service's tasks.
func (s *service) tasks() *run.Runner { return s.runner }
