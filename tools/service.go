package tools

import (
	"context"
	"encoding/json"
	"errors"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tasks"
)

// service answers calls.
type service struct {
	registry *Registry
	runner   *tasks.Runner
	parked   *parking
	recent   recentCalls
	o        ServeOptions

	// In a supervisor or a worker, of the client that made the call.
	polls     bool // the fallback tools are listed for it
	confirmed bool // its user has confirmed the call
}

// called reads the params of a call and finds its tool.
func (s *service) called(ctx context.Context, c *rpc.Caller, params json.RawMessage) (*mcp.CallToolParams, *entry, error) {
	p, err := callParams(c.Version, params)
	if err != nil {
		return nil, nil, err
	}
	e := s.lookup(ctx, p.Name)
	if e == nil || e.forApp && !c.ShowsApps() {
		return nil, nil, rpc.Errorf(mcp.CodeInvalidParams, "unknown tool: %q", p.Name)
	}
	return p, e, nil
}

// lookup returns the tool of a name, nil if there is none.
func (s *service) lookup(ctx context.Context, name string) *entry {
	if e := s.registry.lookup(name); e != nil {
		return e
	}
	s.o.Source.NeedTool(ctx, name)
	return s.registry.lookup(name)
}

// start starts a call of a tool. One that is detached and has nothing to ask runs elsewhere when start returns.
func (s *service) start(ctx context.Context, e *entry, arguments json.RawMessage, d *delivery, spec tasks.Spec) (*tasks.Run, error) {
	run, err := s.runner.Start(ctx, s.spec(e, arguments, d, spec))
	if err == nil && !e.traits.Bounded && d.caller.ShowsApps() {
		s.recent.note(d.caller, run)
	}
	if err != nil || !e.traits.Detached || e.traits.Confirms {
		return run, err
	}
	select {
	case <-run.Detached():
		return run, nil
	case <-run.Worked():
		return run, nil // it failed to, and says so
	case <-ctx.Done():
		giveUp(ctx, run)
		return nil, context.Cause(ctx)
	}
}

// spec says how a call of a tool runs.
func (s *service) spec(e *entry, arguments json.RawMessage, d *delivery, spec tasks.Spec) tasks.Spec {
	spec.Tool, spec.Arguments = e.spec.Name, arguments
	spec.Client = d.audience
	in := &Call{Arguments: arguments, Confirmed: s.confirmed, caller: d.caller, audience: d.audience, service: s}
	// On the goroutine of the request: the check needs stack, which that of a task would keep.
	if err := e.check(arguments, s.runner.Secrets()); err != nil {
		spec.Work = func(context.Context, *tasks.Run) tasks.Done {
			return tasks.Done{Result: mcp.ErrorResult(err.Error()), Status: err.Error()}
		}
		return spec
	}
	spec.Work = func(ctx context.Context, run *tasks.Run) tasks.Done {
		in.TaskID, in.run = run.ID(), run
		return *e.run(ctx, in, run.Log(), func(done, total float64, message string) {
			run.Report(tasks.Progress{Done: done, Total: total, Message: message})
			d.audience.report(done, total, message)
		})
	}
	return spec
}

// deliver makes the delivery of a call's first request.
func (s *service) deliver(c *rpc.Caller, handle bool, by spelling) *delivery {
	turns := 1 // so that each question is told as a status of its own
	if c == nil || c.Version.Stateless {
		turns = maxTurns
	}
	d := &delivery{audience: &audience{turn: make(chan struct{}, turns)}, caller: c, handle: handle, spelling: by, o: &s.o}
	d.audience.current.Store(d)
	return d
}

// deliverRest makes the delivery of a call that has come back with answers.
func (s *service) deliverRest(c *rpc.Caller, a *audience, from int64) *delivery {
	d := &delivery{audience: a, caller: c, spelling: chooseSpelling(c, false, ""), from: from, o: &s.o}
	d.open()
	a.current.Store(d)
	if a.end.IsSet() { // it was cut off while it was parked
		d.silence()
	}
	return d
}

// giveUp cancels a call whose request has ended without an answer. When the server stops, the runner ends what is to end.
func giveUp(ctx context.Context, run *tasks.Run) {
	if !errors.Is(context.Cause(ctx), rpc.ErrShutdown) {
		run.Cancel("cancelled by the client")
	}
}

// drop is what becomes of a run whose client cancelled the request before it knew how to find the task.
func drop(run *tasks.Run) func() { return func() { run.Cancel("cancelled by the client") } }

// fallbackHidden reports whether a client's list leaves out the fallback tools, since it can do tasks.
func (s *service) fallbackHidden(c *rpc.Caller) bool {
	return s.o.FallbackTools != "always" && tasks.CanUse(c)
}

// fallbackListed reports whether the fallback tools are listed for a client, so that its model can be told to call them.
func (s *service) fallbackListed(c *rpc.Caller) bool {
	if s.o.FallbackTools == "never" || s.fallbackHidden(c) {
		return false
	}
	e := s.registry.lookup("get_task_result")
	return e != nil && e.extra // else a tool of the user's has its name
}

// canResume reports whether a client that is answered with a task in the place of its result finds the rest: by the fallback tools,
// or by the tasks methods. A client that has closed the input can ask for nothing more.
func (s *service) canResume(c *rpc.Caller) bool {
	return c.InputOpen() && (s.fallbackListed(c) || tasks.CanUse(c))
}
