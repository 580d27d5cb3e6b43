package tools

import (
	"context"
	"math"

	"github.com/rs/zerolog"

	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/feed"
	"runnel/tasks/run"
)

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
