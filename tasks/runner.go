package tasks

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"runnel/partials"
	"runnel/rpc/mcp"
)

// Options of a Runner. The zero value works: a state, an owner or a time that is zero means what its comment begins with.
type Options struct {
	State        State         // NewMemory
	Owner        string        // "local": whose tasks are run and found
	TTL          time.Duration // 1 h: for a task whose requestor asks for none
	MaxTTL       time.Duration // 24 h
	PollInterval time.Duration // 2 s: what tasks suggest to clients that poll
	AskTimeout   time.Duration // 15 s: how long another process may take to cancel a task, a command's grace period and more
	Limits
	Observer   Observer
	MaxPending int // partials.LogOptions.MaxPending
	// ErrorsComplete ends a task whose tool returned an error result as completed, against the specification, for
	// hosts that never fetch the result of a failed task.
	ErrorsComplete bool
	Log            zerolog.Logger

	now func() time.Time // time.Now but in tests
}

// minTTL is the shortest ttl that is honoured: a task that expired at once would be a handle to nothing.
const minTTL = time.Second

// Runner runs tasks and is the one place where their status changes.
type Runner struct {
	o   Options
	ctx context.Context // ends the work of every Run
	end context.CancelFunc
	all sync.WaitGroup // of the Runs and their deliveries

	givenUp context.Context // ended by GiveUp
	giveUp  context.CancelFunc

	merging chan struct{} // holds an element for each merged result that is being answered

	memory   partials.Memory
	starts   window
	requests bucket

	mu       sync.Mutex
	live     map[string]*Run   // Runs with a handle that have not ended
	followed map[string]*Run   // Runs of Follow: of tasks that other processes run
	hidden   map[string]*Run   // Runs without a handle that the store keeps
	made     []string          // the ids of the last tasks that got a handle here, oldest first
	working  map[*Run]struct{} // Runs with a handle whose [Run.Do] has not returned, though they may have ended

	unsettled map[string]Task // ended, but their end could not be stored (settle.go)
	lost      error           // why none of these will be
	watching  bool            // for what others ask (heed.go)
	watchers  sync.WaitGroup
}

// NewRunner makes a runner.
func NewRunner(o Options) *Runner {
	if o.State == nil {
		o.State = NewMemory()
	}
	if o.Owner == "" {
		o.Owner = "local"
	}
	if o.TTL <= 0 {
		o.TTL = time.Hour
	}
	if o.MaxTTL <= 0 {
		o.MaxTTL = 24 * time.Hour
	}
	if o.PollInterval <= 0 {
		o.PollInterval = 2 * time.Second
	}
	if o.AskTimeout <= 0 {
		o.AskTimeout = 15 * time.Second
	}
	if o.MaxLive <= 0 {
		o.MaxLive = defaultMaxLive
	}
	if o.now == nil {
		o.now = time.Now
	}
	if o.Observer == nil {
		o.Observer = unobserved{}
	}
	ctx, end := context.WithCancel(context.Background())
	givenUp, giveUp := context.WithCancel(context.Background())
	return &Runner{o: o, ctx: ctx, end: end, givenUp: givenUp, giveUp: giveUp,
		live: map[string]*Run{}, followed: map[string]*Run{}, hidden: map[string]*Run{}, working: map[*Run]struct{}{}, unsettled: map[string]Task{},
		merging:  make(chan struct{}, maxMerging),
		starts:   window{limit: o.MaxStartsPerMinute, period: time.Minute},
		requests: bucket{limit: o.MaxRequestsPerSecond, period: time.Second},
	}
}

// Spec says what to run.
type Spec struct {
	Tool string
	// Handle: the requestor gets a task id. The task is stored, found by the tasks methods, and counts as live.
	Handle bool
	// Late: without a handle yet, it may get one (Run.Promote). Nothing of its output is lost before that.
	Late bool
	// TTL that the requestor asked for; 0 for none.
	TTL time.Duration
	// Variables that the task begins with, an encoded object that MergeVariables has made; nil for none.
	Variables json.RawMessage
	// Merge makes the merged segments the task's result, as SEP-1905 asks of a streaming task.
	Merge bool
	// Prepare is called before the work starts. The task does not end before Run.Deliver has
	// been called and what it started has written the last of the output.
	Prepare func(run *Run)
	// Status is told every later status of the task, in order, the terminal one last. It must not block.
	Status func(mcp.Task)
	// Work is the tool. It writes to run.Log() and ends soon after ctx does.
	Work Work
}

// Work does what a task is for. statusMessage is what the task's status says once it has ended;
// an error that is no *rpc.Error is an internal one, whose text stays in the log.
type Work func(ctx context.Context, run *Run) (result *mcp.CallToolResult, statusMessage string, err error)

// Start runs spec.Work as a new task, in a goroutine of its own. It fails like New.
func (r *Runner) Start(ctx context.Context, spec Spec) (*Run, error) {
	run, err := r.New(ctx, spec)
	if err == nil {
		go run.Do()
	}
	return run, err
}

// New makes a new task of spec.Work, which its caller must let [Run.Do] do. It fails, with an *rpc.Error, when there are too many
// live tasks or the task cannot be stored.
func (r *Runner) New(ctx context.Context, spec Spec) (*Run, error) {
	now := r.o.now()
	run := r.newRun(spec, Task{
		ID:        NewID(now),
		Owner:     r.o.Owner,
		Tool:      spec.Tool,
		Status:    mcp.TaskWorking,
		CreatedAt: now,
		UpdatedAt: now,
		TTL:       r.ttl(spec.TTL),
		Variables: spec.Variables,
		Merge:     spec.Merge,
	})
	if spec.Handle {
		// An end that another process asks for as soon as the task is stored waits for the door.
		run.door.Lock()
		err := r.admit(ctx, run)
		run.door.Unlock()
		if err != nil {
			run.ctx.Cancel(err)
			return nil, err
		}
	}
	r.begin(run)
	return run, nil
}

// newRun makes a run of a task, with a log of its own if the task has none.
func (r *Runner) newRun(spec Spec, t Task) *Run {
	run := &Run{
		id:     t.ID,
		runner: r,
		spec:   spec,
		task:   t,
		handle: spec.Handle,

		owed: 1,
	}
	run.ctx.Parent = r.ctx
	if t.Log == nil {
		o := partials.LogOptions{MaxPending: r.o.MaxPending, Memory: &r.memory, Lost: run.ctx.Cancel}
		if spec.Late && !spec.Handle {
			o.Spill = run.spill
			run.hider = time.AfterFunc(hideAfter, run.spill)
		}
		run.task.Log = partials.NewLog(&o)
		run.task.Segments = partials.NewSegments(run.task.Log)
	}
	run.log, run.segments = run.task.Log, run.task.Segments
	return run
}

// begin makes a run ready for [Run.Do], which Close waits for from then on.
func (r *Runner) begin(run *Run) {
	if run.spec.Prepare != nil {
		run.spec.Prepare(run)
	}
	r.all.Add(1)
}

// done is called when Do returns.
func (r *Runner) done(run *Run) {
	if run.HasHandle() { // a lock that small calls do not share
		r.mu.Lock()
		delete(r.working, run)
		r.mu.Unlock()
	}
	r.all.Done()
}

// admit counts and stores a task that gets a handle. The run's door is held.
func (r *Runner) admit(ctx context.Context, run *Run) error {
	r.mu.Lock()
	if len(r.live) >= r.o.MaxLive {
		r.mu.Unlock()
		return r.refused(run, r.o.TooManyLive())
	}
	if !r.starts.take() {
		r.mu.Unlock()
		return r.refused(run, r.o.TooManyStarts())
	}
	return r.enter(ctx, run)
}

// enter is admit without the limits. The run's door is held, and r.mu, which it gives back.
func (r *Runner) enter(ctx context.Context, run *Run) error {
	r.live[run.id] = run
	r.watch()
	r.mu.Unlock()
	// A task is stored before its handle is sent.
	task := run.Task()
	if err := r.o.State.Put(ctx, task); err != nil {
		r.forget(run)
		return r.refused(run, err)
	}
	r.mu.Lock()
	r.working[run] = struct{}{}
	r.remember(run.id)
	r.mu.Unlock()
	run.expiry = setAlarm(r.o.now, task.CreatedAt.Add(task.TTL), run.expire)
	r.tellCreated(&task)
	return nil
}

// ttl is the ttl that is granted: what was asked for, within bounds.
func (r *Runner) ttl(asked time.Duration) time.Duration {
	if asked == 0 {
		asked = r.o.TTL
	}
	return min(max(asked, minTTL), r.o.MaxTTL)
}

// forget takes a run out of the live ones. Its door is held.
func (r *Runner) forget(run *Run) {
	if run.expiry != nil {
		run.expiry.stop()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(run)
}

// drop is forget under mu. Another run may follow the same task by now.
func (r *Runner) drop(run *Run) {
	for _, list := range []map[string]*Run{r.live, r.followed} {
		if list[run.id] == run {
			delete(list, run.id)
		}
	}
}

// Running returns the Run of a task that has a handle and has not ended, nil otherwise.
func (r *Runner) Running(id string) *Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.running(id)
}

// running is Running under mu.
func (r *Runner) running(id string) *Run {
	if run := r.live[id]; run != nil {
		return run
	}
	return r.followed[id]
}

// Get returns a task of the owner as it is now, or ErrNotFound.
func (r *Runner) Get(ctx context.Context, id string) (Task, error) {
	if run := r.Running(id); run != nil {
		return run.live(), nil
	}
	if t, ok := r.unstored(id); ok {
		return t, nil
	}
	t, err := r.o.State.Get(ctx, r.o.Owner, id)
	if err == nil && t.Status == mcp.TaskWorking { // elsewhere
		t.StatusMessage = Clip(t.LastLine(ctx))
	}
	return t, err
}

// List returns a page of the owner's tasks (see Store).
func (r *Runner) List(ctx context.Context, cursor string, n int) ([]Task, string, error) {
	page, next, err := r.o.State.List(ctx, r.o.Owner, cursor, n)
	for i := range page {
		if run := r.Running(page[i].ID); run != nil {
			page[i] = run.live()
		} else if t, ok := r.unstored(page[i].ID); ok {
			page[i] = t
		}
	}
	return page, next, err
}

// Wait returns when no task runs any more, or with ctx's error.
func (r *Runner) Wait(ctx context.Context) error {
	idle := make(chan struct{})
	go func() { r.all.Wait(); close(idle) }()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Go runs f in a goroutine whose context ends when the runner is closed; Close waits for it.
func (r *Runner) Go(f func(ctx context.Context)) {
	r.watchers.Go(func() { f(r.ctx) })
}

// errClosed is why work ends when the process does.
var errClosed = errors.New("runnel was stopped")

// Close cancels all that runs and returns when it has ended: no tool's goroutine and no child is left, but for what GiveUp leaves behind.
func (r *Runner) Close() {
	r.end()
	_ = r.Wait(r.givenUp) // its error says that GiveUp has been called
	r.watchers.Wait()
	r.settleLast()
}

// GiveUp lets Close return though there is work that has not: nothing can stop a Go function that does not look at its context.
// The tasks fail as all do that Close stops.
func (r *Runner) GiveUp() {
	r.mu.Lock()
	working := slices.Collect(maps.Keys(r.working))
	r.mu.Unlock()
	var cut sync.WaitGroup // each waits for its client
	for _, run := range working {
		if !run.worked.IsSet() { // else its end is being stored, and finish waits for that
			r.o.Log.Error().Str("taskId", run.id).Str("owner", r.o.Owner).Str("tool", run.spec.Tool).Msg("a tool has not stopped: it is left behind")
		}
		cut.Go(func() { run.cutOff(errClosed) })
	}
	cut.Wait()
	r.giveUp()
}
