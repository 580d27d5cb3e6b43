package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/rs/zerolog"

	"runnel/internal/shorten"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/feed"
	"runnel/tasks/methods"
	"runnel/tasks/run"
)

// service answers calls.
type service struct {
	registry *Registry
	runner   *run.Runner
	parked   *parking
	recent   recentCalls
	o        ServeOptions

	passwords passwordPages

	taken Detached // in a supervisor or a worker: the call that it runs
}

// called reads the params of a call and finds its tool.
func (s *service) called(ctx context.Context, c *rpc.Caller,
	params json.RawMessage) (*mcp.CallToolParams, *entry, error) {
	p, err := callParams(c.Version, params)
	if err != nil {
		return nil, nil, err
	}
	e := s.lookup(ctx, c, p.Name)
	if e == nil || e.forApp && !c.ShowsApps() {
		return nil, nil, rpc.Errorf(mcp.CodeInvalidParams, "%v", s.unknown(p.Name))
	}
	return p, e, nil
}

// lookup returns the tool with a name, nil if there is none.
func (s *service) lookup(ctx context.Context, c *rpc.Caller, name string) *entry {
	if e := s.registry.lookup(name); e != nil {
		return e
	}
	s.o.Source.NeedTool(ctx, c, name)
	return s.registry.lookup(name)
}

// unknown says that there is no tool with a name, or that its server is down.
func (s *service) unknown(name string) error {
	if why := s.o.Source.WhyMissing(name); why != "" {
		return fmt.Errorf("unknown tool: %q, unless a server has it that is down: %s", name, why)
	}
	return fmt.Errorf("unknown tool: %q", name)
}

// start starts a call of a tool. A detached call without questions already runs elsewhere when start returns.
func (s *service) start(ctx context.Context, e *entry, arguments json.RawMessage, d *delivery,
	spec run.Spec) (*run.Run, error) {
	run, err := s.runner.Make(ctx, s.spec(e, arguments, d, spec))
	if err != nil {
		return nil, err
	}
	d.begin(run)
	if e.traits.Screen != [2]int{} && d.Caller != nil {
		s.runner.Go(func(ctx context.Context) { s.askPasswords(ctx, d) })
	}
	if !e.traits.bounded && d.Caller.ShowsApps() {
		s.recent.note(d.Caller, run)
	}
	if !d.audience.apart || e.traits.Confirms {
		return run, nil
	}
	select {
	case <-d.audience.placed.Done():
		return run, nil
	case <-run.Worked():
		return run, nil // that failed, and the run says so
	case <-ctx.Done():
		s.giveUp(ctx, e, run, d.Caller)
		return nil, context.Cause(ctx)
	}
}

// spec returns how a call of a tool runs.
func (s *service) spec(e *entry, arguments json.RawMessage, d *delivery, spec run.Spec) run.Spec {
	spec.Tool = e.spec.Name
	// runnel call, a supervisor and a worker are not hosts.
	if c := d.Caller; c != nil && c.Client.Name != "runnel" {
		spec.ClientName = strings.Clone(shorten.Cut(c.Client.Name, maxHostName))
	}
	spec.Arguments = arguments
	spec.Unrecorded = e.extra || e.forApp
	spec.Client = d.audience
	if (e.traits.Serves || e.traits.Lasts) && spec.TTL == 0 {
		spec.TTL = math.MaxInt64
	}
	spec.Longest = e.traits.Longest
	spec.Lasts = spec.Lasts || e.traits.Lasts
	d.Relays = e.traits.Relays
	// A call is detached by itself if its client can take a task, and comes back for it. It is detached from
	// its start, since nothing can take a command over from the process that started it; that costs some
	// 0.1 s. What the clock starts is detached, too: it is not part of a session that may end with its host.
	comesBack := func(c *rpc.Caller) bool {
		return c != nil && known(c).Resumes && methods.CanUse(c) && (spec.Handle || canTask(c, e))
	}
	outlives := e.traits.MayDetach && s.o.Detach != nil && (d.audience.byClock || comesBack(d.Caller))
	d.audience.apart = outlives || e.traits.Detached
	if spec.Handle || !outlives {
		d.audience.known.Set()
	}
	// The check runs on the goroutine of the request: it needs stack, which the goroutine of a task would
	// keep.
	fitted, err := e.fit(arguments, s.runner.Secrets())
	in := &Call{Arguments: fitted, Params: d.params, Confirmed: s.taken.Confirmed,
		caller: d.Caller, audience: d.audience, server: s, outlives: outlives}
	if err != nil {
		spec.Work = func(context.Context, *run.Run) run.Done {
			return run.Done{Result: mcp.ErrorResult(err.Error()), Status: err.Error()}
		}
		return spec
	}
	spec.Work = func(ctx context.Context, run *run.Run) run.Done {
		in.TaskID, in.run = run.ID(), run
		return *e.run(ctx, in, run.Log(), func(p tasks.Progress, params json.RawMessage) {
			run.Report(p)
			d.audience.report(p, params)
		})
	}
	return spec
}

// deliver makes the delivery of a call's first request.
func (s *service) deliver(c *rpc.Caller, handle bool, by feed.Spelling) *delivery {
	turns := 1 // each question is a separate status
	if c == nil || c.Version.Stateless {
		turns = maxTurns
	}
	d := &delivery{audience: &audience{turn: make(chan struct{}, turns),
		lasting: make(chan struct{}, maxLasting)}}
	d.Feed = feed.Feed{Caller: c, Handle: handle, Spelling: by,
		Options: feed.Options{Deliver: s.o.Deliver, Heartbeat: s.o.Heartbeat}}
	d.audience.current.Store(d)
	return d
}

// deliverRest makes the delivery of a call that has come back with answers.
func (s *service) deliverRest(c *rpc.Caller, a *audience, from int64) *delivery {
	d := &delivery{audience: a}
	before := a.current.Load()
	d.Feed = feed.Feed{Caller: c, Spelling: feed.Choose(c, false, ""), From: from, Relays: before.Relays,
		Options: before.Options}
	d.Open(a.run)
	a.current.Store(d)
	if a.end.IsSet() { // it was cut off while it was parked
		d.Silence()
	}
	return d
}

// giveUp cancels a call whose request has ended without an answer. When the server stops, the runner ends
// what must end. What was interrupted is kept for clients that read tasks (Runner.Earlier): this session may
// have read nothing of it, and some hosts cancel their calls before they end. A client with tasks of its own
// may not find a task for a call that it has cancelled.
func (s *service) giveUp(ctx context.Context, e *entry, run *run.Run, c *rpc.Caller) {
	stopped := errors.Is(context.Cause(ctx), rpc.ErrShutdown)
	if !e.traits.bounded && (s.fallbackListed(c) || stopped && methods.CanUse(c)) {
		if err := run.Keep(context.WithoutCancel(ctx)); err != nil && !errors.Is(err, tasks.ErrEnded) {
			s.o.Log.Warn().Err(err).Str("taskId", run.ID()).Msg("an interrupted call is not kept")
		}
	}
	if !stopped {
		run.Cancel("cancelled by the client")
	}
}

// drop returns what happens to a run whose client cancelled the request before it could know the task.
func drop(run *run.Run) func() { return func() { run.Cancel("cancelled by the client") } }

// fallbackListed reports whether a client's list has the fallback tools, so that its model can be told to
// call them.
func (s *service) fallbackListed(c *rpc.Caller) bool {
	return s.o.FallbackTools != "never" && !s.fallbackHidden(c)
}

// poller returns the name of get_task_result in a client's list, "" if it is not there. In a supervisor or a
// worker the client is nil.
func (s *service) poller(c *rpc.Caller) string {
	switch {
	case c == nil && s.taken.Polls:
		return "get_task_result"
	case c != nil && s.fallbackListed(c):
		return s.registry.fallbackName("get_task_result")
	}
	return ""
}

// detacher returns the function that starts the process which continues a call, nil if nothing outlives this
// one.
func (s *service) detacher() func(*Detached) error { return s.o.Detach }

// log is the server's log.
func (s *service) log() *zerolog.Logger { return &s.o.Log }

// detached is the call that a supervisor or a worker runs.
func (s *service) detached() *Detached { return &s.taken }

// canResume reports whether a client that is answered with a task instead of its result can get the rest,
// with the fallback tools or the tasks methods. A client that has closed the input can ask for nothing more.
func (s *service) canResume(c *rpc.Caller) bool {
	return c.InputOpen() && (s.fallbackListed(c) || methods.CanUse(c))
}
