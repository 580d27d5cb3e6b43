package serve

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"runnel/internal/detach"
	"runnel/internal/fleet"
	"runnel/internal/metrics"
	"runnel/partials"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/files"
	"runnel/tasks/methods"
	"runnel/tasks/run"
	"runnel/tasks/sqlite"
	"runnel/tools"
	"runnel/tools/config"
	"runnel/tools/upstream"
	"runnel/tools/view"
)

// served is a server for one owner.
type served struct {
	*rpc.Server
	tools   *upstream.Set
	runner  *run.Runner
	starter *tools.Starter
	idle    func() bool // reports whether no task runs
	stop    func()      // ends its tasks
	files   func(ctx context.Context, task string) (*files.Set, error)
}

// server wires the rooms for one owner.
func (s *Setup) server(conf *config.Config, set *upstream.Set, store tasks.State, observer run.Observer,
	log zerolog.Logger) served {
	server := rpc.NewServer(&rpc.Options{
		Info:         mcp.Implementation{Name: conf.Server.Name, Version: Version()},
		Instructions: conf.Server.Instructions,
		MaxLine:      int(conf.Limits.MaxLine),
		MaxInFlight:  conf.Limits.MaxInFlight,
		Drain:        cmp.Or(time.Duration(conf.Limits.Drain), time.Nanosecond), // 0 means the default there
		Log:          log,
	})
	if m, ok := observer.(*metrics.Metrics); ok {
		observer = m.Of(conf.Server.Owner)
	}
	runner := s.newRunner(conf, store, observer, log)
	if s, ok := store.(*sqlite.State); ok {
		set.Dir = s.Dir()
	}
	set.Missing = s.missing
	// When the input has ended or a signal has come, no child is left behind.
	stop := sync.OnceFunc(func() { stopTasks(runner.Close, set.Close, runner.GiveUp, set.Tools.Grace()) })
	methods.Register(server, runner)
	fleet.Lend(conf, set, store, runner, log)
	starter := set.Serve(server, runner, s.Wrapped != nil, tools.ServeOptions{
		Deliver: partials.DeliverOptions{
			Pace:     time.Duration(conf.Partials.Pace),
			MaxBytes: int(conf.Partials.MaxBytes),
			Colors:   s.Colors,
		},
		SyncWait:      time.Duration(conf.Tasks.SyncWait),
		ImmediateWait: time.Duration(conf.Tasks.ImmediateWait),
		Heartbeat:     time.Duration(conf.Tasks.Heartbeat),
		FallbackTools: string(conf.FallbackTools),
		MaxResult:     int(conf.Tasks.MaxResult),
		ByClient: tools.ByClient{SyncWait: !conf.Given("tasks.syncWait"),
			ImmediateWait: !conf.Given("tasks.immediateWait"), MaxResult: !conf.Given("tasks.maxResult")},
		RequiredFallthrough: conf.Compat.RequiredFallthrough,
		Resumable:           !inMemory(store),
		Detach:              s.supervisors(conf, store),
		App:                 view.App(runner, s.hosts(store)),
		Listed:              s.describe(store),
		Log:                 log,
	})
	return served{server, set, runner, starter, runner.Idle, stop, runner.Files}
}

// place names the directory that this process works in. Others who read the state learn no path from it.
func place() string {
	dir, err := os.Getwd()
	if err != nil {
		return ""
	}
	host, _ := os.Hostname() // without it, equal directories of two machines are one place
	sum := sha256.Sum256([]byte(host + "\x00" + dir))
	return hex.EncodeToString(sum[:8])
}

// newRunner makes the runner of the config's owner.
func (s *Setup) newRunner(conf *config.Config, store tasks.State, observer run.Observer,
	log zerolog.Logger) *run.Runner {
	lasting := time.Duration(conf.Tasks.MaxTTL)
	if conf.Origin("tasks.maxTtl") == "" {
		lasting = tasks.DefaultMaxLasting
	}
	return run.NewRunner(run.Options{
		Place:        place(),
		Shared:       !inMemory(store),
		State:        store,
		Owner:        conf.Server.Owner,
		TTL:          time.Duration(conf.Tasks.TTL),
		MaxTTL:       time.Duration(conf.Tasks.MaxTTL),
		MaxLasting:   lasting,
		PollInterval: time.Duration(conf.Tasks.PollInterval),
		Limits:       limits(conf),
		Observer:     observer,
		Ended:        s.Notices.Tell,
		Matched:      s.Notices.Tell,
		MaxPending:   int(conf.Partials.MaxPending),
		Secrets:      s.secrets,
		Log:          log,

		ErrorsComplete: conf.Tasks.FailedExit == "completed",
	})
}

// missing tells a model why the tools of the project's config file are missing, "" if they are not.
func (s *Setup) missing() string {
	if left := s.left(); left != nil {
		return left.Instructions()
	}
	return ""
}

// taskGrace is how long tasks may take to end: longer than commands and calls of other servers take by
// default.
const taskGrace = 10 * time.Second

// lastGrace is how much longer they may take after that: longer than upstreams take, which are killed if they
// do not end.
const lastGrace = 15 * time.Second

// stopTasks ends all tasks. If they take too long, it ends the upstreams, since no call outlasts its
// connection. Tasks that have still not ended after the grace of their commands end with the process.
func stopTasks(end, endUpstreams, giveUp func(), grace time.Duration) {
	defer time.AfterFunc(taskGrace, endUpstreams).Stop()
	defer time.AfterFunc(max(taskGrace, grace)+lastGrace, giveUp).Stop()
	end()
}

// supervisors returns the function that starts the supervisor of a detached call, nil if the state does not
// outlive this process.
func (s *Setup) supervisors(conf *config.Config, store tasks.State) func(*tools.Detached) error {
	dir, ok := store.(*sqlite.State)
	if !ok {
		return nil
	}
	return func(call *tools.Detached) error {
		return (&detach.Supervisors{
			StateDir:       []byte(dir.Dir()),
			MaxState:       int64(conf.State.MaxState),
			Owner:          []byte(conf.Server.Owner),
			MaxPending:     int(conf.Partials.MaxPending),
			ErrorsComplete: conf.Tasks.FailedExit == "completed",
			Notices:        s.Notices.Rules(),
		}).Start(call)
	}
}
