package serve

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"runnel/internal/fleet"
	"runnel/internal/metrics"
	"runnel/tasks"
	"runnel/tasks/run"
	"runnel/tools"
	"runnel/tools/config"
	"runnel/tools/every"
	"runnel/tools/process"
	"runnel/tools/upstream"
)

// Work runs the tasks of other processes until ctx ends. After that, running tasks may go on for Drain.
func (s *Setup) Work(ctx context.Context, o fleet.Options) error {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	s.Stderr = s.patientStderr()
	conf, file, err := s.LoadConfig(ctx)
	if err != nil {
		return err
	}
	classes, of, ofUpstream := conf.OnWorker(o.Classes)
	if len(classes) == 0 {
		return &UsageError{Err: errors.New("runnel work: no tool or upstream of the config says which " +
			"class of workers runs it (runs: CLASS): name one with --class")}
	}
	s.scheduler = every.New()
	set, count, err := s.Registry(conf)
	if err != nil {
		return err
	}
	if count+s.Upstreams == 0 {
		return &UsageError{Err: fmt.Errorf("runnel work: the config has no tools and no upstreams for "+
			"workers of class %s", classes[0])}
	}
	defer set.Close()
	log := s.Logger()
	s.warnings(conf, log)
	store, err := s.openState(conf, log)
	if err != nil {
		return err
	}
	defer s.Notices.Close()
	defer closeState(store, log)
	queues, ok := store.(tasks.Queues)
	if !ok {
		return &UsageError{Err: errors.New("runnel work: a worker takes tasks from a state on NATS: name " +
			"it with --state nats://HOST:4222")}
	}
	if len(o.Owners) == 0 {
		o.Owners = []string{conf.Server.Owner}
	}
	host, err := os.Hostname()
	if err != nil {
		host = "an unknown host"
	}
	o.Classes = classes
	m := metrics.New()
	runners := map[string]*run.Runner{}
	priorities := map[string]tasks.Priority{}
	for name, tool := range conf.Tools {
		priorities[name] = tasks.Priority(tool.Priority)
	}
	set.ServeOthers()
	for _, owner := range o.Owners {
		theirs := *conf
		theirs.Server.Owner = owner
		runners[owner] = s.newRunner(&theirs, store, m.OfWorker(), log)
	}
	each := func(do func(*run.Runner)) func() {
		return func() {
			var all sync.WaitGroup
			for _, r := range runners {
				all.Go(func() { do(r) })
			}
			all.Wait()
		}
	}
	w := fleet.NewWorker(fleet.Parts{Options: o, Queues: queues, Host: host, Set: set, Runners: runners,
		Metrics: m, Secrets: s.secrets, Log: log, Of: of, OfUpstream: ofUpstream, Priorities: priorities, Leave: leave,
		Stop: func() {
			stopTasks(each((*run.Runner).Close), set.Close, each((*run.Runner).GiveUp), set.Tools.Grace())
		}})
	m.WatchWorker(w.Takes)
	m.WatchFleet(queues, func() []string { return o.Owners }, log)
	if conf.Metrics != "" {
		serving, stop := context.WithCancel(context.WithoutCancel(ctx)) // tasks may go on when ctx has ended
		defer stop()
		ready := &readiness{store: store.Open(o.Owners[0]), takes: w.Takes, log: log}
		m.Serve(serving, string(conf.Metrics), ready.ready, log)
	}
	process.CollectOrphans(ctx)
	recoverState(ctx, conf, store, log)
	log.Info().Str("version", Version()).Str("config", file).Strs("classes", classes).
		Strs("owners", o.Owners).Int("tools", count).Int("slots", o.Slots).Msg("working")
	offered, err := offers(conf, set, of)
	if err != nil {
		return err
	}
	owner := runners[o.Owners[0]]
	s.scheduler.Run(owner, tools.NewStarter(offered, owner, log), log)
	context.AfterFunc(ctx, s.scheduler.Stop)
	w.Run(ctx)
	return nil
}

// maxRetries is how often a call of steps that the clock has started goes on after the death of its worker.
const maxRetries = 100

// offers returns tools in the place of those of a worker that start by themselves: a call of one waits for
// any worker of its class. of has the classes by tool.
func offers(conf *config.Config, set *upstream.Set, of map[string]string) (*tools.Registry, error) {
	offered := &tools.Registry{}
	for name, tool := range conf.Tools {
		if tool.Every == nil {
			continue
		}
		if err := tool.Complete(); err != nil {
			return nil, err
		}
		o := tasks.Offer{Class: of[name], Priority: tasks.Priority(tool.Priority),
			Timeout: time.Duration(*tool.QueueTimeout), Retries: tool.Retry.Times}
		if len(tool.Steps) > 0 {
			o.Retries = maxRetries
		}
		if err := offered.Add(tools.NewOffered(set.Tools.Lookup(name).Describe(), o)); err != nil {
			return nil, err
		}
	}
	return offered, nil
}
