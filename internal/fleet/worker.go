package fleet

import (
	"cmp"
	"context"
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
	"runnel/tools/secrets"
	"runnel/tools/upstream"
)

// Options are what a person says about a worker.
type Options struct {
	Classes []string // none = the classes that its tools name
	Owners  []string // it runs their tasks, in turn, and obeys the first; none = the config's owner
	Slots   int      // how many tasks it runs at once
	Each    int      // how many of an owner at most; 0 = no limit
	Drain   time.Duration
	Name    string   // by which people drain it; "" = the host's
	Labels  []string // for people
}

// Parts are what a worker is made of.
type Parts struct {
	Options // without its defaults
	Queues  tasks.Queues
	Host    string
	Set     *upstream.Set
	Runners map[string]*run.Runner // by owner
	Metrics *metrics.Metrics
	Secrets *secrets.Current
	Log     zerolog.Logger

	Of, OfUpstream map[string]string         // the classes of the tools, and of the upstreams, by name
	Priorities     map[string]tasks.Priority // of the tools' calls

	Leave func() // ends the context of Run
	Stop  func() // ends the tasks that still run after Drain
}

// Worker runs tasks that other processes have stored, with the tools of a config.
//
// Goroutines: the caller of Run takes tasks, one announces the worker, and one per task waits for the task's
// end.
type Worker struct {
	Parts
	leaving <-chan struct{} // closed when it takes no more tasks
	slots   chan struct{}   // holds an element for each task that runs
	changed signal.Wake     // it is to be announced again
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

// NewWorker makes a worker, which takes nothing before Run.
func NewWorker(p Parts) *Worker {
	return &Worker{Parts: p, slots: make(chan struct{}, p.Slots), changed: signal.NewWake(),
		missing: map[string]bool{},
		self: tasks.Worker{Name: cmp.Or(p.Name, p.Host), Labels: p.Labels, Host: p.Host, PID: os.Getpid(),
			Classes: p.Classes, Slots: p.Slots}}
}

// Run takes tasks until ctx ends, and returns when all have ended: after Drain, Stop ends them.
func (w *Worker) Run(ctx context.Context) {
	w.leaving = ctx.Done()
	announcing, stop := context.WithCancel(context.WithoutCancel(ctx))
	var announcer sync.WaitGroup
	before := w.obey(ctx, nil) // a class may be paused
	announcer.Go(func() { w.announce(announcing, before) })
	announcer.Go(func() { w.Set.Need(announcing, nil) }) // it starts the upstreams
	w.take(ctx)
	w.mu.Lock()
	w.self.Slots = 0 // it takes no more tasks
	w.mu.Unlock()
	w.changed.Send()
	ended := make(chan struct{})
	go func() { defer close(ended); w.all.Wait() }()
	w.awaitEnds(ended)
	w.Stop()
	<-ended
	stop()
	announcer.Wait()
	w.Log.Info().Str("name", w.self.Name).Msg("this worker has ended")
}

// sayInterval is how often a worker that ends says what it waits for.
const sayInterval = time.Minute

// awaitEnds waits for the end of the tasks that run, at most for Drain, and says again and again which they
// are.
func (w *Worker) awaitEnds(ended <-chan struct{}) {
	deadline := time.Now().Add(w.Drain)
	for time.Now().Before(deadline) {
		w.mu.Lock()
		var running []string
		for _, o := range w.running {
			running = append(running, o.Task.Tool+" "+o.Task.ID)
		}
		w.mu.Unlock()
		left := time.Until(deadline)
		w.Log.Info().Str("name", w.self.Name).Strs("running", running).
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
func (w *Worker) take(ctx context.Context) {
	for failed := false; ; {
		select {
		case w.slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		looking, stop := context.WithCancel(ctx)
		ready, theirs := w.ready(stop)
		o, err := w.Queues.Next(looking, theirs, ready)
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
			w.Log.Warn().Err(err).Msg("looking for tasks that wait for workers")
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
func (w *Worker) ready(more func()) (list, theirs []string) {
	tools := w.Set.Tools.Tools()
	w.mu.Lock()
	defer w.mu.Unlock()
	full := map[string]bool{}
	for _, t := range tools {
		name := t.Describe().Name
		class := w.class(t, name)
		others, known := full[class]
		full[class] = (others || !known) && w.full(t, name)
	}
	list = slices.DeleteFunc(slices.Clone(w.Classes), func(class string) bool {
		return full[class] || slices.Contains(w.paused, class)
	})
	has := map[string]int{}
	for _, o := range w.running {
		has[o.Task.Owner]++
	}
	theirs = slices.DeleteFunc(slices.Clone(w.Owners),
		func(owner string) bool { return w.Each > 0 && has[owner] >= w.Each })
	w.again = more
	if w.more = nil; len(list) < len(w.Classes) || len(theirs) < len(w.Owners) {
		w.more = more
	}
	return list, theirs
}

// full reports whether no more calls of a tool may run now. w.mu is held.
func (w *Worker) full(t tools.Tool, name string) bool {
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
func (w *Worker) begin(o *tasks.Offered) bool {
	log := w.Log.With().Str("taskId", o.Task.ID).Str("owner", o.Task.Owner).Str("tool", o.Task.Tool).Logger()
	tool := w.Set.Tools.Lookup(o.Task.Tool)
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
	call := &tools.Detached{TaskID: o.Task.ID, Arguments: o.Arguments, Polls: o.Polls, Host: w.Host,
		Confirmed: o.Confirmed, Client: o.Client, Offer: o.Offer, Leaving: w.leaving,
		Tools: w.Set.Tools}
	run, err := tools.Take(context.Background(), w.Runners[o.Task.Owner], call, tool,
		rawjson.Encode(map[string]any{"host": w.Host, "pid": os.Getpid()}), w.Log)
	if err != nil {
		w.handBack(o, "not taken") // if it no longer waits, the next worker finds that out
		log.Warn().Err(err).Msg("a task was not taken")
		return false
	}
	o.Done()
	attempt := run.Task().Attempt
	w.Metrics.Taken(o.Class, o.Task.Tool, attempt, time.Since(o.Since))
	log.Info().Int("attempt", attempt).Msg("task taken")
	w.mu.Lock()
	w.running = append(w.running, o)
	w.mu.Unlock()
	w.changed.Send()
	w.all.Go(func() {
		<-run.Ended()
		select {
		case <-run.Detached():
			w.Metrics.Left(o.Class)
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
		w.changed.Send()
		<-w.slots
	})
	return true
}

// handBack returns an offer to the queue.
func (w *Worker) handBack(o *tasks.Offered, why string) {
	o.Return()
	w.Metrics.HandedBack(o.Class, why)
}

// Takes returns how many tasks the worker runs at once, 0 when it takes no more.
func (w *Worker) Takes() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.self.Slots
}

// class returns the class of a tool, "" if its calls are not offered to workers.
func (w *Worker) class(tool tools.Tool, name string) string {
	if server := upstream.ServerOf(tool); server != "" {
		return w.OfUpstream[server]
	}
	return w.Of[name]
}
