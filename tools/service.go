package tools

import (
	"context"
	"encoding/json"
	"errors"
	"runnel/partials"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/logs"
	"time"

	"github.com/rs/zerolog"
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

// service answers calls.
type service struct {
	registry *Registry
	runner   *tasks.Runner
	parked   *parking
	o        ServeOptions
	polls    bool // of a supervisor: the fallback tools are listed for the client that made the call
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
	spec.Prepare = d.audience.prepare
	in := &Call{Arguments: arguments, caller: d.caller, ask: d.audience.ask, askOther: d.audience.askOther, detach: s.o.Detach}
	in.polls = func() bool { return s.polls || d.caller != nil && s.fallbackListed(d.caller) }
	// On the goroutine of the request: the check needs stack, which that of a task would keep.
	invalid := e.check(arguments)
	spec.Work = func(ctx context.Context, run *tasks.Run) (*mcp.CallToolResult, string, error) {
		if invalid != nil {
			return mcp.ErrorResult(invalid.Error()), invalid.Error(), nil
		}
		in.TaskID, in.run = run.ID(), run
		result, message, err := e.run(ctx, in, run.Log(), d.audience.report)
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
	return e != nil && e.hidden != nil // else a tool of the user's has its name
}

// canGoOn reports whether a client that is answered with a task in the place of its result finds the rest: by the fallback tools,
// or by the tasks methods. Who has closed the input can ask for nothing more.
func (s *service) canGoOn(c *rpc.Caller) bool {
	return c.InputOpen() && (s.fallbackListed(c) || tasks.CanUse(c))
}
