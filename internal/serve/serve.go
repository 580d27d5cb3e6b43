package serve

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/rs/zerolog"

	"runnel/internal/metrics"
	"runnel/internal/term"
	"runnel/tasks"
	"runnel/tasks/run"
	"runnel/tools/config"
	"runnel/tools/every"
	"runnel/tools/process"
	"runnel/tools/upstream"
)

// Serve runs until the input ends, ctx does, or the output fails.
func (s *Setup) Serve(ctx context.Context) error {
	s.Stderr = s.patientStderr()
	starting, started := context.WithCancel(ctx)
	defer started()
	starting = s.UntilHangup(starting) // until the config is read, there is nothing to read again
	conf, file, err := s.LoadConfig(starting)
	if err != nil && starting.Err() != nil { // a signal is a normal way to end
		s.Say(zerolog.WarnLevel, "runnel: "+err.Error())
		return nil
	}
	if err != nil {
		return err
	}
	if s.view != nil {
		conf.HTTP = config.HTTP{Addr: s.view.address, NoStdio: true}
	}
	null := term.IsNull(s.Stdin) && !conf.HTTP.NoStdio
	if null && conf.HTTP.Addr != "" { // a manager of services has started it, and no host
		conf.HTTP.NoStdio = true
	}
	s.session = conf.HTTP.Addr == ""
	if s.view == nil {
		s.scheduler = every.New()
	}
	set, count, err := s.registry(conf, false)
	if err != nil {
		return err
	}
	log := s.Logger()
	s.warnings(conf, log)
	if conf.HTTP.Addr != "" {
		s.owners = &owners{setup: s, began: conf, latest: conf, log: log, others: map[string]served{},
			lastCame: map[string]time.Time{}}
		if s.front, err = s.frontOptions(conf, log); err != nil {
			return err
		}
	}
	if term.IsTerminal(s.Stdin) && !conf.HTTP.NoStdio {
		s.Say(zerolog.InfoLevel, "runnel speaks MCP, one JSON message per line, with the host that starts "+
			"it, and this is a terminal. Press Ctrl-D to end it; runnel --help shows what else it can do.")
	}
	switch {
	case null && conf.HTTP.NoStdio:
		log.Info().Msg("stdin is the null device: HTTP only is served, until a signal, as with --no-stdio")
	case null:
		log.Warn().Msg("stdin is the null device, so no host can speak to runnel, which ends: a host " +
			"starts it with a pipe, and --http ADDR serves HTTP until a signal")
	}
	if count+len(conf.Upstreams)+len(conf.Fleet.Classes) == 0 && s.Wrapped == nil && s.view == nil &&
		!s.Untrusted() {
		log.Warn().Msg("no tools: name one with --tool, or let runnel init propose a runnel.yaml")
	}
	store, err := s.openState(conf, log)
	if err != nil {
		return err
	}
	defer s.Notices.Close() // last: until it is closed, a state may find that the keeper of a task is gone
	defer closeState(store, log)
	warnOfState(store, log)
	if s.view != nil && inMemory(store) {
		s.Say(zerolog.WarnLevel, "runnel ui: the state is memory, so the view shows only tasks that it "+
			"starts itself; name a directory with --state")
	}
	log.Info().Str("version", Version()).Str("config", file).Int("tools", count).
		Int("upstreams", s.Upstreams).Msg("serving")
	time.AfterFunc(startDelay, func() { process.ReserveThreads() })
	switch {
	case file == "" && s.project == "":
		ctx = starting // nor will there ever be a config
	case s.Watches:
		started() // a SIGHUP until now needs no action if there is a file: reload checks whether it has changed
		if file == "" && context.Cause(starting) != context.Canceled {
			return nil // a signal is a normal way to end
		}
		var end context.CancelCauseFunc
		ctx, end = context.WithCancelCause(ctx)
		watch, stop := context.WithCancel(ctx)
		ended := make(chan struct{})
		go func() { defer close(ended); s.reload(watch, file, conf, set, log, end) }()
		defer func() { stop(); <-ended; end(nil) }()
	}
	return s.Connect(ctx, conf, set, store, log)
}

// Connect wires the rooms and serves one client.
func (s *Setup) Connect(ctx context.Context, conf *config.Config, set *upstream.Set, store tasks.State,
	log zerolog.Logger) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	process.CollectOrphans(ctx)
	recoverState(ctx, conf, store, log)
	var observer run.Observer
	var m *metrics.Metrics
	s.front.Ready = (&readiness{store: store.Open(conf.Server.Owner), log: log}).ready
	if conf.Metrics != "" {
		m = metrics.New()
		m.Serve(ctx, string(conf.Metrics), s.front.Ready, log)
		observer, s.front.Observe = m, m.Answered
		if queues, ok := store.(tasks.Queues); ok {
			m.WatchFleet(queues, func() []string { return s.watched(conf) }, log)
		}
	}
	defer set.Close()
	own := s.server(conf, set, store, observer, log)
	if s.scheduler != nil {
		// A client that only looks at the server has left by then.
		defer time.AfterFunc(startDelay, func() { s.scheduler.Run(own.runner, own.starter, log) }).Stop()
	}
	own.OnDrain(func(ctx context.Context) {
		if s.scheduler != nil {
			s.scheduler.Stop()
		}
		_ = own.runner.Wait(ctx) // an error only says that ctx has ended
	})
	stop, end := own.stop, func() {}
	if s.owners != nil {
		var err error
		s.owners.own = own
		s.owners.store = store
		s.owners.observer = observer
		if stop, end, err = s.serveHTTP(ctx, m, log); err != nil {
			own.stop()
			return err
		}
	}
	defer end()
	defer stop()
	if conf.HTTP.NoStdio {
		<-ctx.Done()
		return nil
	}
	own.OnStop(stop)
	err := own.Serve(ctx, s.Stdin, s.Stdout)
	if err != nil && ctx.Err() != nil {
		return nil // a signal is a normal way to end
	}
	return err
}

// ServeView serves the live view at an address of this machine, instead of a client on stdin and stdout,
// until ctx ends. It calls opened with the view's URL once the view can be opened.
func (s *Setup) ServeView(ctx context.Context, address config.Address, opened func(url string)) error {
	s.view = &liveView{address, opened, rand.Text()}
	return s.Serve(ctx)
}
