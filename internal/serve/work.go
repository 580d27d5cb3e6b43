package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"runnel/internal/metrics"
	"runnel/internal/pause"
	"runnel/internal/signal"
	"runnel/rpc/rawjson"
	"runnel/tasks"
	"runnel/tasks/run"
	"runnel/tools"
	"runnel/tools/process"
	"runnel/tools/secrets"
	"runnel/tools/upstream"
)

// WorkOptions are the options of a worker.
type WorkOptions struct {
	Classes []string // none = the classes that its tools name
	Owners  []string // it runs their tasks, in turn; none = the config's owner
	Slots   int      // how many tasks it runs at once
	Each    int      // how many of an owner at most; 0 = no limit
	Drain   time.Duration
	Name    string   // by which people drain it; "" = the host's
	Labels  []string // for people
}

// worker runs tasks that other processes have stored, with the tools of a config.
//
// Goroutines: the caller of Work takes tasks, one announces the worker, and one per task waits for the task's
// end.
type worker struct {
	queue   tasks.Queue
	host    string
	set     *upstream.Set
	runners map[string]*run.Runner
	metrics *metrics.Metrics
	secrets *secrets.Current
	log     zerolog.Logger

	of, ofUpstream map[string]string         // the classes of the tools, and of the upstreams, by name
	priorities     map[string]tasks.Priority // of the tools' calls

	first   string          // the owner whose orders it obeys
	each    int             // WorkOptions.Each
	leave   func()          // makes it take no more tasks
	leaving <-chan struct{} // closed then
	slots   chan struct{}   // holds an element for each task that runs
	changed signal.Wake
	all     sync.WaitGroup

	mu      sync.Mutex
	self    tasks.Worker     // without Running
	running []*tasks.Offered // the tasks that run
	more    func()           // makes take look for tasks of all classes again; nil if it does so already
	missing map[string]bool  // tools that were asked for and are not in the config
	again   func()           // ends the look for tasks, for a new one
	paused  []string         // classes of which it takes no tasks
}

// takeAgain is the pause after a failed look for tasks.
const takeAgain = time.Second

// Work runs the tasks of other processes until ctx ends. After that, running tasks may go on for Drain.
func (s *Setup) Work(ctx context.Context, o WorkOptions) error {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	s.Stderr = s.patientStderr()
	conf, file, err := s.LoadConfig(ctx)
	if err != nil {
		return err
	}
	classes, of, ofUpstream := conf.OnWorker(o.Classes)
	if len(classes) == 0 {
		return &UsageError{Err: errors.New("runnel work: no tool or upstream of the config says which class of workers runs it (runs: CLASS): name one with --class")}
	}
	set, count, err := s.Registry(conf)
	if err != nil {
		return err
	}
	if count+s.Upstreams == 0 {
		return &UsageError{Err: fmt.Errorf("runnel work: the config has no tools and no upstreams for workers of class %s", classes[0])}
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
	queue, ok := store.(tasks.Queue)
	if !ok {
		return &UsageError{Err: errors.New("runnel work: a worker takes tasks from a state on NATS: name it with --state nats://HOST:4222")}
	}
	if len(o.Owners) == 0 {
		o.Owners = []string{conf.Server.Owner}
	}
	host, err := os.Hostname()
	if err != nil {
		host = "an unknown host"
	}
	m := metrics.New()
	w := &worker{
		queue: queue, host: host, set: set, of: of, ofUpstream: ofUpstream,
		priorities: map[string]tasks.Priority{},
		runners:    map[string]*run.Runner{}, metrics: m, secrets: s.secrets, log: log,
		first: o.Owners[0], each: o.Each, leave: leave, leaving: ctx.Done(),
		slots: make(chan struct{}, o.Slots), changed: signal.NewWake(), missing: map[string]bool{},
		self: tasks.Worker{
			Name: cmp.Or(o.Name, host), Labels: o.Labels, Host: host, PID: os.Getpid(), Classes: classes,
			Slots: o.Slots,
		},
	}
	for name, tool := range conf.Tools {
		w.priorities[name] = tasks.Priority(tool.Priority)
	}
	set.ServeOthers()
	for _, owner := range o.Owners {
		theirs := *conf
		theirs.Server.Owner = owner
		w.runners[owner] = s.newRunner(&theirs, store, m.OfWorker(), log)
	}
	m.WatchWorker(w.takes)
	m.WatchFleet(queue, func() []string { return o.Owners }, log)
	if conf.Metrics != "" {
		serving, stop := context.WithCancel(context.WithoutCancel(ctx)) // tasks may go on when ctx has ended
		defer stop()
		ready := &readiness{store: store, owner: o.Owners[0], takes: w.takes, log: log}
		m.Serve(serving, string(conf.Metrics), ready.ready, log)
	}
	process.CollectOrphans(ctx)
	recoverState(ctx, conf, store, log)
	log.Info().Str("version", Version()).Str("config", file).Strs("classes", classes).
		Strs("owners", o.Owners).Int("tools", count).Int("slots", o.Slots).Msg("working")
	w.run(ctx, o.Owners, classes, o.Drain, set.Tools.Grace)
	return nil
}

// run takes tasks until ctx ends, and returns when all have ended.
func (w *worker) run(ctx context.Context, owners, classes []string, drain time.Duration,
	grace func() time.Duration) {
	announcing, stop := context.WithCancel(context.WithoutCancel(ctx))
	var announcer sync.WaitGroup
	before := w.obey(ctx, nil) // a class may be paused
	announcer.Go(func() { w.announce(announcing, before) })
	announcer.Go(func() { w.set.Need(announcing, nil) }) // it starts the upstreams
	w.take(ctx, owners, classes)
	w.mu.Lock()
	w.self.Slots = 0 // it takes no more tasks
	w.mu.Unlock()
	w.change()
	ended := make(chan struct{})
	go func() { defer close(ended); w.all.Wait() }()
	w.awaitEnds(ended, drain)
	runners := slices.Collect(maps.Values(w.runners))
	each := func(do func(*run.Runner)) func() {
		return func() {
			var all sync.WaitGroup
			for _, r := range runners {
				all.Go(func() { do(r) })
			}
			all.Wait()
		}
	}
	stopTasks(each((*run.Runner).Close), w.set.Close, each((*run.Runner).GiveUp), grace())
	<-ended
	stop()
	announcer.Wait()
	w.log.Info().Str("name", w.self.Name).Msg("this worker has ended")
}

// sayInterval is how often a worker that ends says what it waits for.
const sayInterval = time.Minute

// awaitEnds waits for the end of the tasks that run, at most for drain, and says again and again which they are.
func (w *worker) awaitEnds(ended <-chan struct{}, drain time.Duration) {
	deadline := time.Now().Add(drain)
	for time.Now().Before(deadline) {
		w.mu.Lock()
		var running []string
		for _, o := range w.running {
			running = append(running, o.Task.Tool+" "+o.Task.ID)
		}
		w.mu.Unlock()
		left := time.Until(deadline)
		w.log.Info().Str("name", w.self.Name).Strs("running", running).
			Stringer("drain", left.Round(time.Second)).
			Msg("this worker takes no more tasks, and ends when those that run have ended")
		select {
		case <-ended:
			return
		case <-time.After(min(left, sayInterval)):
		}
	}
}

// take takes tasks until ctx ends. It asks for a task only when it has a free slot: another worker may have
// one right now.
func (w *worker) take(ctx context.Context, owners, classes []string) {
	for failed := false; ; {
		select {
		case w.slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		looking, stop := context.WithCancel(ctx)
		ready, theirs := w.ready(classes, owners, stop)
		o, err := w.queue.Next(looking, theirs, ready)
		again := looking.Err() != nil && ctx.Err() == nil
		stop()
		switch {
		case o != nil && ctx.Err() != nil:
			w.handBack(o, "leaving")
			return
		case o != nil:
			failed = false
			if !w.begin(o) {
				<-w.slots
			}
			continue
		case ctx.Err() != nil:
			return
		case again:
			<-w.slots
			continue
		case !failed:
			w.log.Warn().Err(err).Msg("looking for tasks that wait for workers")
		}
		failed = true
		<-w.slots
		if !pause.For(ctx, takeAgain) {
			return
		}
	}
}

// ready returns the classes for which the worker could begin a task right now, and the owners that may have
// one more here. A task of another class would have to wait here, though another worker may be free. If some
// are missing, more is called when a task has ended.
func (w *worker) ready(classes, owners []string, more func()) (list, theirs []string) {
	tools := w.set.Tools.Tools()
	w.mu.Lock()
	defer w.mu.Unlock()
	full := map[string]bool{}
	for _, t := range tools {
		name := t.Describe().Name
		class := w.class(t, name)
		others, known := full[class]
		full[class] = (others || !known) && w.full(t, name)
	}
	list = slices.DeleteFunc(slices.Clone(classes), func(class string) bool {
		return full[class] || slices.Contains(w.paused, class)
	})
	has := map[string]int{}
	for _, o := range w.running {
		has[o.Task.Owner]++
	}
	theirs = slices.DeleteFunc(slices.Clone(owners),
		func(owner string) bool { return w.each > 0 && has[owner] >= w.each })
	w.again = more
	if w.more = nil; len(list) < len(classes) || len(theirs) < len(owners) {
		w.more = more
	}
	return list, theirs
}

// full reports whether no more calls of a tool may run now. w.mu is held.
func (w *worker) full(t tools.Tool, name string) bool {
	begun := 0
	for _, running := range w.running {
		if running.Task.Tool == name {
			begun++
		}
	}
	kind, ok := t.(tools.Kind)
	return ok && kind.Traits().AtOnce > 0 && begun >= kind.Traits().AtOnce
}

// begin runs a task. It reports false if it cannot.
func (w *worker) begin(o *tasks.Offered) bool {
	log := w.log.With().Str("taskId", o.Task.ID).Str("owner", o.Task.Owner).Str("tool", o.Task.Tool).Logger()
	tool := w.set.Tools.Lookup(o.Task.Tool)
	if tool == nil || w.class(tool, o.Task.Tool) == "" {
		w.handBack(o, "unknown tool")
		w.mu.Lock()
		told := w.missing[o.Task.Tool]
		w.missing[o.Task.Tool] = true
		w.self.Refused++
		w.mu.Unlock()
		if !told {
			log.Warn().Str("class", o.Class).
				Msg("tasks of this tool are left to other workers: the tool is not in this worker's config")
		}
		return false
	}
	call := &tools.Detached{TaskID: o.Task.ID, Arguments: o.Arguments, Polls: o.Polls, Host: w.host,
		Confirmed: o.Confirmed, Client: o.Client, Offer: o.Offer, Leaving: w.leaving,
		Tools: w.set.Tools}
	run, err := tools.Take(context.Background(), w.runners[o.Task.Owner], call, tool,
		rawjson.Encode(map[string]any{"host": w.host, "pid": os.Getpid()}), w.log)
	if err != nil {
		w.handBack(o, "not taken") // if it no longer waits, whoever takes it next finds that out
		log.Warn().Err(err).Msg("a task was not taken")
		return false
	}
	o.Done()
	attempt := run.Task().Attempt
	w.metrics.Taken(o.Class, o.Task.Tool, attempt, time.Since(o.Since))
	log.Info().Int("attempt", attempt).Msg("task taken")
	w.mu.Lock()
	w.running = append(w.running, o)
	w.mu.Unlock()
	w.change()
	w.all.Go(func() {
		<-run.Ended()
		select {
		case <-run.Detached():
			w.metrics.Left(o.Class)
			log.Info().Msg("task handed back: it has not begun")
		default:
			// An error says that the run is over, or that nothing can be stored any more.
			_ = run.Settled(run.Context())
		}
		w.mu.Lock()
		w.running = slices.DeleteFunc(w.running, func(other *tasks.Offered) bool { return other == o })
		if w.more != nil {
			w.more()
		}
		w.mu.Unlock()
		w.change()
		<-w.slots
	})
	return true
}

// handBack returns an offer to the queue.
func (w *worker) handBack(o *tasks.Offered, why string) {
	o.Return()
	w.metrics.HandedBack(o.Class, why)
}

// takes returns how many tasks the worker runs at once, 0 when it takes no more.
func (w *worker) takes() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.self.Slots
}

// class returns the class of a tool, "" if its calls are not offered to workers.
func (w *worker) class(tool tools.Tool, name string) string {
	if server := upstream.ServerOf(tool); server != "" {
		return w.ofUpstream[server]
	}
	return w.of[name]
}
