package tools

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"runnel/partials"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/logs"
)

// ServeOptions are how calls are answered and their output is delivered. Zero means what the config file's default is
// for FallbackTools only; the durations mean what they say.
type ServeOptions struct {
	Pump                partials.PumpOptions
	SyncWait            time.Duration         // when a plain call that is not finished is handed over; 0 = never
	ImmediateWait       time.Duration         // how long a call may take before its answer is a handle, where its client lets the server choose
	Heartbeat           time.Duration         // longest silence towards a client that asked for progress; 0 = no heartbeat
	FallbackTools       string                // auto, always, never; "" = auto
	MaxResult           int                   // how much of the output of a tool that is not a command get_task_result shows at once; 0 = text.DefaultMaxResult
	RequiredFallthrough bool                  // a tool that requires a task runs without one, too
	Detach              func(*Detached) error // starts the process that goes on with a call; nil = nothing outlives this process
	Log                 zerolog.Logger

	Source Source      // nil = all tools are known from the start
	Others logs.Others // nil = there are no resources but logs
}

// Source joins tools to the registry that are not known from the start, such as other servers'.
type Source interface {
	// Need waits, for a while, until the tools that c may see have joined.
	Need(ctx context.Context, c *rpc.Caller)
	// NeedTool is Need for a tool of a name that the registry does not have.
	NeedTool(ctx context.Context, name string)
	// Whole reports whether all of its tools have joined.
	Whole() bool
}

// noSource joins nothing.
type noSource struct{}

func (noSource) Need(context.Context, *rpc.Caller) {}
func (noSource) NeedTool(context.Context, string)  {}
func (noSource) Whole() bool                       { return true }

type service struct {
	registry *Registry
	runner   *tasks.Runner
	parked   *parking
	o        ServeOptions
	polls    bool // of a supervisor: the fallback tools are listed for the client that made the call
}

// Serve adds tools/list, tools/call and the resources methods to srv, and the fallback tools to the registry.
func Serve(srv *rpc.Server, registry *Registry, runner *tasks.Runner, o ServeOptions) {
	if o.Source == nil {
		o.Source = noSource{}
	}
	s := &service{registry: registry, runner: runner, parked: newParking(), o: o}
	s.addFallbackTools()
	srv.Declare(func(_ *mcp.Version, caps *mcp.ServerCapabilities) {
		caps.Tools = &mcp.ToolsCapability{ListChanged: true}
	})
	srv.OnSession(func(c *rpc.Caller) {
		changed, stop := registry.changes.Watch()
		runner.Go(func(ctx context.Context) {
			defer stop()
			rpc.Announce(ctx, changed, func() error { return c.NotifyWait(ctx, "notifications/tools/list_changed", nil) })
		})
		runner.Go(func(ctx context.Context) { s.tellUsed(ctx, c) })
	})
	srv.OnDrain(func(context.Context) { s.parked.close() })
	srv.Handle(rpc.Handshake, "tools/list", s.list)
	srv.Handle(rpc.Handshake, "tools/call", s.call)
	srv.Handle(rpc.Stateless, "tools/list", s.listStateless)
	srv.Handle(rpc.Stateless, "tools/call", s.callStateless)
	logs.Serve(srv, runner, logs.Options{Pump: o.Pump, Tools: &registry.changes, Others: o.Others})
}

// tellUsed tells a session that has seen the fallback tools, and then uses tasks, that its list has none of them any more.
func (s *service) tellUsed(ctx context.Context, c *rpc.Caller) {
	select {
	case <-tasks.Used(c).Done():
		if fallbackSeen(c).IsSet() && !s.fallbackListed(c) {
			_ = c.Notify("notifications/tools/list_changed", nil) // fails only when nobody is there to read it
		}
	case <-ctx.Done():
	}
}

func (s *service) list(ctx context.Context, c *rpc.Caller, params json.RawMessage) (any, error) {
	cursor, err := rpc.Cursor(params)
	if err != nil {
		return nil, err
	}
	s.o.Source.Need(ctx, c)
	if s.fallbackListed(c) {
		fallbackSeen(c).Set()
	}
	return s.registry.list(c, cursor)
}

// call answers tools/call. Every call runs as a task; what differs is what the client is told, and when:
// a plain call waits for the end, one that was augmented with a task gets a handle, or what SEP-1905
// lets it choose.
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
	return s.callPlain(ctx, c, e, p)
}

// called reads the params of a call and finds its tool.
func (s *service) called(ctx context.Context, c *rpc.Caller, params json.RawMessage) (*mcp.CallToolParams, *entry, error) {
	p, err := callParams(c.Version, params)
	if err != nil {
		return nil, nil, err
	}
	e := s.lookup(ctx, p.Name)
	if e == nil {
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
	spec.Tool = e.spec.Name
	spec.Prepare = d.prepare
	in := &Call{Arguments: arguments, caller: d.caller, ask: d.asking.ask, askOther: d.asking.askOther, detach: s.o.Detach}
	in.polls = func() bool { return s.polls || d.caller != nil && s.fallbackListed(d.caller) }
	spec.Work = func(ctx context.Context, run *tasks.Run) (*mcp.CallToolResult, string, error) {
		in.TaskID, in.run = run.ID(), run
		result, message, err := e.run(ctx, in, run.Log(), func(done, total float64, message string) {
			d.current.Load().report(done, total, message)
		})
		if in.Said.Truncated && result != nil && in.keep(ctx) && (d.caller == nil || d.caller.Version.ResourceLinks) {
			linkLog(result, run)
		}
		if in.Said.Rest != nil {
			run.Rest(*in.Said.Rest)
		}
		return result, message, err
	}
	return spec
}

// linkLog adds to a result that was cut where all of the output is.
func linkLog(result *mcp.CallToolResult, run *tasks.Run) {
	t := run.Task()
	result.Content = append(result.Content, tasks.LinkLog(&t))
}

// giveUp cancels a call whose request has ended without an answer. When the server stops, the runner ends what is to end.
func giveUp(ctx context.Context, run *tasks.Run) {
	if !errors.Is(context.Cause(ctx), rpc.ErrShutdown) {
		run.Cancel("cancelled by the client")
	}
}

// callPlain answers a call that its client waits for. One that takes too long for most hosts is handed over. The work is done
// on the request's goroutine: to start another one and to be woken by it was a fifth of a small call's processor time.
func (s *service) callPlain(ctx context.Context, c *rpc.Caller, e *entry, p *mcp.CallToolParams) (any, error) {
	d := s.deliver(c, false, "")
	run, err := s.runner.New(ctx, s.spec(e, p.Arguments, d, tasks.Spec{Late: !e.traits.Bounded}))
	if err != nil {
		return nil, err
	}
	d.start()
	c.OnCancel(func() {
		giveUp(ctx, run)
		c.Answer(nil, context.Cause(ctx))
	})
	if s.o.SyncWait > 0 && !e.traits.Bounded {
		var late sync.WaitGroup
		late.Add(1)
		t := time.AfterFunc(s.o.SyncWait, func() {
			defer late.Done()
			if !s.canGoOn(c) {
				return
			}
			if result := s.handOver(ctx, e, d); result != nil {
				c.Answer(rpc.After{Result: dressResult(c.Version, result), Drop: drop(run)}, nil)
			}
		})
		defer func() {
			if !t.Stop() {
				late.Wait() // whoever is handed over gets no other answer
			}
		}()
	}
	run.Do()
	return d.answer()
}

// callTask answers a call that was augmented with a task.
func (s *service) callTask(ctx context.Context, c *rpc.Caller, e *entry, p *mcp.CallToolParams) (any, error) {
	tasks.Used(c).Set()
	mode, fallback := chooseMode(e, p.Task.ResponseModes)
	d := s.deliver(c, true, mode)
	ttl, err := ttl(p.Task)
	if err != nil {
		return nil, err
	}
	variables, err := callVariables(c)
	if err != nil {
		return nil, err
	}
	immediate := listed(p.Task.ResponseModes, mcp.ModeImmediate) && !e.traits.Detached
	run, err := s.start(ctx, e, p.Arguments, d, tasks.Spec{Handle: true, TTL: ttl, Status: d.status, Variables: variables,
		Merge: mode == mcp.ModeStreaming && !immediate})
	if err != nil {
		return nil, err
	}
	if immediate && s.finishes(ctx, run) {
		defer s.runner.TellRetrieved(run.ID())
		return d.immediate()
	}
	if mode == mcp.ModeStreaming {
		if immediate { // it took too long for that
			if err := run.Merge(ctx); err != nil {
				run.Cancel("refused")
				return nil, err
			}
		}
		return rpc.After{Result: s.firstResponse(ctx, d), Do: d.start, Drop: drop(run)}, nil
	}
	handle := run.Handle()
	if fallback {
		handle.Meta[mcp.MetaFallbackMode] = string(mcp.ModeTask)
	}
	// "The response with the handle comes first, then partials."
	return rpc.After{Result: handle, Do: d.start, Drop: drop(run)}, nil
}

// drop is what becomes of a run whose client cancelled the request before it knew how to find the task.
func drop(run *tasks.Run) func() { return func() { run.Cancel("cancelled by the client") } }

// augmented reports whether the call was augmented with a task, and refuses what the tool does not
// support: "Servers MUST return a -32601 (Method not found) error if a client does not attempt to"
// use a task where one is required, and SHOULD where it is forbidden (2025-11-25 basic/utilities/tasks,
// "Tool-Level Negotiation"). Older versions have no tasks: there, every tool is simply called.
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
