package tools

import (
	"cmp"
	"context"
	"errors"
	"math"
	"time"

	"github.com/rs/zerolog"

	"runnel/internal/clients"
	"runnel/internal/signal"
	"runnel/partials"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/feed"
	"runnel/tasks/logs"
	"runnel/tasks/methods"
	"runnel/tasks/run"
	"runnel/tools/text"
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

// Serve adds tools/list, tools/call and the resources methods to srv, and the fallback tools to the registry.
// Use it instead of ListenAndServe for a server with options, a state or a transport of your own. It returns
// what starts the tools without a client.
func Serve(srv *rpc.Server, registry *Registry, runner *run.Runner, o ServeOptions) *Starter {
	if o.Source == nil {
		o.Source = noSource{}
	}
	s := &service{registry: registry, runner: runner, parked: newParking(), o: o,
		passwords: passwordPages{open: map[string]*passwordPage{}}}
	own := s.fallbackTools()
	var page *logs.Page
	if o.App != nil {
		page = &o.App.Page
		own = append(own, appTools(o.App)...)
	}
	registry.addOwn(own...)
	srv.Declare(func(_ *rpc.Caller, caps *mcp.ServerCapabilities) {
		caps.Tools = &mcp.ListCapability{ListChanged: true}
	})
	srv.OnSession(func(c *rpc.Caller) {
		seenBy(c)
		Announce(runner, c, "notifications/tools/list_changed", &registry.changes)
	})
	srv.OnDrain(func(context.Context) { s.parked.close() })
	if o.Resumable {
		runner.Go(s.resumeLeft)
	}
	if o.Resumable {
		srv.HandleResume((&feed.Resumer{Runner: runner, Deliver: o.Deliver, Log: o.Log}).Resume)
	}
	srv.Handle(rpc.Handshake, "tools/list", s.list)
	srv.Handle(rpc.Handshake, "tools/call", s.call)
	srv.Handle(rpc.Stateless, "tools/list", s.list)
	srv.Handle(rpc.Stateless, "tools/call", s.callStateless)
	logs.Serve(srv, runner, logs.Options{Deliver: o.Deliver, Tools: &registry.changes, Page: page,
		Others: o.Others})
	return &Starter{s}
}

// tellUsed tells a session that has seen the fallback tools, as soon as it uses tasks, that its list no
// longer has them.
func (s *service) tellUsed(ctx context.Context, c *rpc.Caller) {
	ctx, cancel := c.WhileOpen(ctx)
	defer cancel()
	select {
	case <-methods.Used(c).Done():
		if !s.fallbackListed(c) {
			_ = c.Notify("notifications/tools/list_changed", nil) // fails only if the reader has closed
		}
	case <-ctx.Done():
	}
}

// Announce tells a session about changes of a list as long as the session is open.
func Announce(runner *run.Runner, c *rpc.Caller, method string, list *signal.Broadcast) {
	changed, stop := list.Watch()
	runner.Go(func(ctx context.Context) {
		defer stop()
		ctx, cancel := c.WhileOpen(ctx)
		defer cancel()
		rpc.Announce(ctx, changed, func() error { return c.NotifyWait(ctx, method, nil) })
	})
}

// ServeOptions say how calls are answered and how their output is delivered. Zero is a default only for
// FallbackTools and MaxResult; zero durations mean what their comments say.
type ServeOptions struct {
	Deliver  partials.DeliverOptions
	SyncWait time.Duration // when an unfinished plain call is handed over; 0 = never
	// How long a call may take before it is answered with a handle, if the client lets the server choose.
	ImmediateWait time.Duration
	// The longest silence towards a client that asked for progress; 0 = no heartbeat.
	Heartbeat     time.Duration
	FallbackTools string // auto, always, never; "" = auto
	// How much text of a result a model is shown; 0 = text.DefaultMaxResult.
	MaxResult           int
	RequiredFallthrough bool // a tool that requires a task also runs without one
	Resumable           bool // tasks and their delivery outlive this process
	// Starts the process that continues a call; nil = nothing outlives this process.
	Detach func(*Detached) error
	Log    zerolog.Logger

	// ByClient says which values are not set: what is known about the client wins over them.
	ByClient ByClient

	App    *App                            // nil = none
	Listed func(client mcp.Implementation) // is called when a client lists the tools; nil = nothing is
	Source Source                          // nil = all tools are known from the start
	Others logs.Others                     // nil = the only resources are logs
}

// ByClient names values of ServeOptions that depend on the client, where package clients knows it.
type ByClient struct{ SyncWait, ImmediateWait, MaxResult bool }

// App is a page that clients show beside a call (MCP Apps), with the tools that only the page calls.
type App struct {
	Page  logs.Page
	Tools []Tool
}

// Source adds tools to the registry that are not known from the start, such as those of other servers.
type Source interface {
	// Need waits for some time until the tools that c may see have joined.
	Need(ctx context.Context, c *rpc.Caller)
	// NeedTool is Need for a tool name that is not in the registry.
	NeedTool(ctx context.Context, c *rpc.Caller, name string)
	// WhyMissing says what keeps a tool of this name out of the registry, "" if nothing does: there is none.
	WhyMissing(name string) string
	// Whole reports whether all of its tools have joined.
	Whole() bool
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

// canResume reports whether a client that is answered with a task instead of its result can get the rest,
// with the fallback tools or the tasks methods. A client that has closed the input can ask for nothing more.
func (s *service) canResume(c *rpc.Caller) bool {
	return c.InputOpen() && (s.fallbackListed(c) || methods.CanUse(c))
}

// noSource joins nothing.
type noSource struct{}

func (noSource) Need(context.Context, *rpc.Caller)             {}
func (noSource) NeedTool(context.Context, *rpc.Caller, string) {}
func (noSource) WhyMissing(string) string                      { return "" }
func (noSource) Whole() bool                                   { return true }

// known returns what is known about a client.
func known(c *rpc.Caller) clients.Client { return clients.Find(c.Client.Name, c.Client.Version) }

func (s *service) immediateWait(c *rpc.Caller) time.Duration {
	if wait := known(c).ImmediateWait; s.o.ByClient.ImmediateWait && wait > 0 {
		return wait
	}
	return s.o.ImmediateWait
}

// maxResult returns how much text of a result a client's model is shown, in bytes.
func (s *service) maxResult(c *rpc.Caller) int {
	if most := known(c).MaxResult; s.o.ByClient.MaxResult && most > 0 {
		return most
	}
	return cmp.Or(s.o.MaxResult, text.DefaultMaxResult)
}

// shows returns what a client shows its model of a result. In a supervisor or a worker the client is nil.
func (s *service) shows(c *rpc.Caller) (most, mostOfError int) {
	if c == nil {
		most, mostOfError = cmp.Or(s.taken.Client.MaxResult, text.DefaultMaxResult), s.taken.Client.MaxError
		if s.taken.Flattens && isDone(s.taken.Known) { // see MaxError
			mostOfError = most
		}
		return most, mostOfError
	}
	return s.maxResult(c), known(c).MaxError
}

// MaxResult returns how much text the result of the call may have, in bytes. own is the tool's own limit, 0
// if it has none.
func (c *Call) MaxResult(own int) int {
	if own > 0 || c.server == nil {
		return cmp.Or(own, text.DefaultMaxResult)
	}
	most, _ := c.server.shows(c.caller)
	return most
}

// MaxError is MaxResult for a call that has failed: some clients show less of an error than of another text.
// A task's error may reach the client as another text (tasks.Readable).
func (c *Call) MaxError(own int) int {
	most := c.MaxResult(own)
	if c.server == nil || c.caller != nil && known(c.caller).Flattens && c.run != nil && c.run.HasHandle() {
		return most
	}
	_, ofError := c.server.shows(c.caller)
	return min(most, cmp.Or(ofError, most))
}

// ByClock is the Client of the tasks that no client has made: they were started by the clock.
const ByClock = "schedule"

// Starter starts tools without a client.
type Starter struct{ s *service }

// NewStarter makes a Starter where no server is: Serve returns one, too.
func NewStarter(registry *Registry, runner *run.Runner, log zerolog.Logger) *Starter {
	return &Starter{&service{registry: registry, runner: runner,
		o: ServeOptions{Log: log, Source: noSource{}}}}
}

// StartTask starts a tool as a task with an id from tasks.NewID. The task is stored when StartTask returns.
// It lasts as long as tasks do at most, and outlives this process if the tool can (Traits.MayDetach). Its
// questions are for every client that finds it.
func (s *Starter) StartTask(ctx context.Context, id, tool string, arguments []byte) error {
	e := s.s.lookup(ctx, nil, tool)
	if e == nil {
		return s.s.unknown(tool)
	}
	d := s.s.deliver(nil, false, feed.ByResult)
	d.audience.byClock = true
	d.audience.far = anyoneAsks
	spec := s.s.spec(e, arguments, d, run.Spec{ID: id, Handle: true, TTL: math.MaxInt64})
	spec.ClientName = ByClock
	started, err := s.s.runner.Make(ctx, spec)
	if err != nil {
		return err
	}
	d.begin(started)
	d.Start()
	return nil
}

// anyoneAsks is the client of a call that has none: every client that finds its task may answer its
// questions.
var anyoneAsks = tasks.FarClient{Asks: mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapability{}}}
