package serve

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"runnel/internal/term"
	"runnel/partials"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/sqlite"
	"runnel/tools"
	"runnel/tools/config"
	"runnel/tools/detach"
	"runnel/tools/process"
	"runnel/tools/upstream"
)

// Serve runs until the input ends, ctx does, or the output fails.
func (s *Setup) Serve(ctx context.Context) error {
	if err := s.Options.http.check(); err != nil {
		return err
	}
	s.Stderr = s.PatientStderr()
	starting, started := context.WithCancel(ctx)
	defer started()
	starting = s.UntilHangup(starting) // there is nothing to read again yet
	conf, file, err := s.LoadConfig(starting)
	if err != nil && starting.Err() != nil { // a signal is a way to end
		s.Say(zerolog.WarnLevel, "runnel: "+err.Error())
		return nil
	}
	if err != nil {
		return err
	}
	set, count, err := s.registry(conf, false)
	if err != nil {
		return err
	}
	log := s.Logger()
	if err := s.readTokens(conf, log); err != nil {
		return err
	}
	if term.IsTerminal(s.Stdin) && !s.Options.http.noStdio {
		s.Say(zerolog.InfoLevel, "runnel speaks MCP, one JSON message a line, with the host that starts it; this is a terminal. Ctrl-D ends it; runnel --help says more.")
	}
	if count+len(conf.Upstreams) == 0 && s.Wrapped == nil {
		log.Warn().Msg("no tools: name some with --tool or in a config file")
	}
	store, err := s.openState(conf, log)
	if err != nil {
		return err
	}
	defer func() {
		if err := store.Close(); err != nil {
			log.Error().Err(err).Msg("closing the state")
		}
	}()
	warnOfState(store, log)
	log.Info().Str("version", Version()).Str("config", file).Int("tools", count).Int("upstreams", len(conf.Upstreams)).Msg("serving")
	time.AfterFunc(startDelay, func() { process.ReserveThreads() })
	switch {
	case file == "":
		ctx = starting // nor will there ever be
	case s.Watches:
		started() // a SIGHUP until now needs nothing: reload looks whether the file has changed
		watch, stop := context.WithCancel(ctx)
		ended := make(chan struct{})
		go func() { defer close(ended); s.reload(watch, file, conf, set, log) }()
		defer func() { stop(); <-ended }()
	}
	return s.Connect(ctx, conf, set, store, log)
}

// supervisors returns the function that starts the supervisors of detached calls, nil if nothing outlives this process.
func supervisors(conf *config.Config, store tasks.State) func(*tools.Detached) error {
	s, ok := store.(*sqlite.State)
	if !ok {
		return nil
	}
	return (&detach.Supervisors{
		StateDir:       []byte(s.Dir()),
		MaxState:       int64(conf.State.MaxState),
		Owner:          []byte(conf.Server.Owner),
		MaxPending:     int(conf.Partials.MaxPending),
		ErrorsComplete: conf.Tasks.FailedExit == "completed",
	}).Start
}

// Connect wires the rooms and serves one client.
func (s *Setup) Connect(ctx context.Context, conf *config.Config, set *upstream.Set, store tasks.State, log zerolog.Logger) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	process.CollectOrphans(ctx)
	recoverState(ctx, store, log)
	var observer tasks.Observer
	if s.Options.metrics != "" {
		observer = serveMetrics(ctx, s.Options.metrics, log)
	}
	defer set.Close()
	own := s.server(conf, set, store, observer, log)
	stop, end := own.stop, func() {}
	if s.Options.http.address != "" {
		var err error
		if stop, end, err = s.serveHTTP(ctx, own, conf, store, observer, log); err != nil {
			own.stop()
			return err
		}
	}
	defer end()
	defer stop()
	if s.Options.http.noStdio {
		<-ctx.Done()
		return nil
	}
	own.OnStop(stop)
	err := own.Serve(ctx, s.Stdin, s.Stdout)
	if err != nil && ctx.Err() != nil {
		return nil // a signal is a way to end
	}
	return err
}

// server wires the rooms for one owner.
func (s *Setup) server(conf *config.Config, set *upstream.Set, store tasks.State, observer tasks.Observer, log zerolog.Logger) served {
	server := rpc.NewServer(&rpc.Options{
		Info:         mcp.Implementation{Name: conf.Server.Name, Version: Version()},
		Instructions: s.instructions(conf),
		MaxLine:      int(conf.Limits.MaxLine),
		MaxInFlight:  conf.Limits.MaxInFlight,
		Drain:        drain(conf.Limits.Drain),
		Log:          log,
	})
	runner := tasks.NewRunner(tasks.Options{
		State:        store,
		Owner:        conf.Server.Owner,
		TTL:          time.Duration(conf.Tasks.TTL),
		MaxTTL:       time.Duration(conf.Tasks.MaxTTL),
		PollInterval: time.Duration(conf.Tasks.PollInterval),
		Limits:       limits(conf),
		Observer:     observer,
		MaxPending:   int(conf.Partials.MaxPending),
		Log:          log,

		ErrorsComplete: conf.Tasks.FailedExit == "completed",
	})
	if s, ok := store.(*sqlite.State); ok {
		set.Dir = s.Dir()
	}
	// When the input has ended or a signal has come, no child is left behind.
	stop := sync.OnceFunc(func() { stopTasks(runner.Close, set.Close, runner.GiveUp, set.Tools.Grace()) })
	runner.Register(server)
	set.Serve(server, runner, s.Wrapped != nil, tools.ServeOptions{
		Pump:                partials.PumpOptions{Pace: time.Duration(conf.Partials.Pace), MaxBytes: int(conf.Partials.MaxBytes)},
		SyncWait:            time.Duration(conf.Tasks.SyncWait),
		ImmediateWait:       time.Duration(conf.Tasks.ImmediateWait),
		Heartbeat:           time.Duration(conf.Tasks.Heartbeat),
		FallbackTools:       string(conf.FallbackTools),
		MaxResult:           int(conf.Tasks.MaxResult),
		RequiredFallthrough: conf.Compat.RequiredFallthrough,
		Detach:              supervisors(conf, store),
		Log:                 log,
	})
	server.OnDrain(func(ctx context.Context) { _ = runner.Wait(ctx) }) // its error only says that ctx has ended
	return served{server, stop}
}

// instructions are those of the config, and the reason if one was left out.
func (s *Setup) instructions(conf *config.Config) string {
	text := conf.Server.Instructions
	if s.untrusted != nil {
		text = strings.TrimSpace(text + "\n\n" + s.untrusted.instructions())
	}
	return text
}

// taskGrace is how long tasks may take to end: longer than commands take by default, and calls of other servers.
const taskGrace = 10 * time.Second

// lastGrace is how long they may take after that: longer than upstreams, which are killed if they do not end.
const lastGrace = 15 * time.Second

// stopTasks ends all tasks. When they take too long the upstreams are ended under them: no call outlasts its connection. Tasks
// that have still not ended within the grace of their commands are left to the end of the process.
func stopTasks(end, endUpstreams, giveUp func(), grace time.Duration) {
	defer time.AfterFunc(taskGrace, endUpstreams).Stop()
	defer time.AfterFunc(max(taskGrace, grace)+lastGrace, giveUp).Stop()
	end()
}

// drain spells a time as rpc.Options does, where 0 means the default.
func drain(d config.Drain) time.Duration {
	if d == 0 {
		return time.Nanosecond
	}
	return time.Duration(d)
}
