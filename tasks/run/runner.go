package run

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"runnel/internal/signal"
	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tools/secrets"
)

// Options of a Runner. The zero value works; a zero field means the default with which its comment begins.
type Options struct {
	State        tasks.State   // NewMemory
	Owner        string        // DefaultOwner: whose tasks the runner runs and finds
	TTL          time.Duration // DefaultTTL: for a task whose requestor asks for no ttl
	MaxTTL       time.Duration // DefaultMaxTTL
	MaxLasting   time.Duration // MaxTTL: instead of it for a Spec that Lasts
	PollInterval time.Duration // DefaultPollInterval: suggested to clients that poll
	// 15 s: how long another process may take to cancel a task; more than a command's grace period.
	AskTimeout time.Duration
	tasks.Limits
	Observer Observer
	// Gets each end that this process must report (Run.reportEnd); must not block; nil = no reports.
	Ended func(t *tasks.Task)
	// Gets a task with new matches, at most one a second; must not block; nil = no reports.
	Matched    func(t *tasks.Task)
	MaxPending int // partials.LogOptions.MaxPending
	// ErrorsComplete ends a task whose tool returned an error result as completed, against the specification,
	// for hosts that never fetch the result of a failed task.
	ErrorsComplete bool
	Secrets        *secrets.Current // the values that a run which starts must not show; nil = none
	Log            zerolog.Logger
	// Place names where this process works, such as a project: Earlier finds the tasks of others that work
	// there. It is stored with each task. "" = Earlier finds none.
	Place string
	// Shared says that other processes use the state: a question of a task can be answered in any of them, as
	// by runnel tasks answer, or another front of the same clients.
	Shared bool

	now func() time.Time // time.Now, except in tests
}

// Observer counts what happens to the tasks of a Runner; set one to export metrics. Its methods must not
// block.
type Observer interface {
	Created(tool string)                                          // a task was stored with a handle
	Ended(tool string, status mcp.TaskStatus, took time.Duration) // a task has its terminal status
	Retrieved()                                                   // a client got a result
	// A task or a request was refused: "live", "starts", "requests" or "store" (limits.go).
	Refused(why string)
	// A language model has answered, or has been asked in vain, for a tool.
	Used(tool string, u Usage)
}

// Usage is what the requests to a language model have taken.
type Usage struct {
	Model                                   string
	Requests                                int
	InputTokens, CachedTokens, OutputTokens int // cached ones are part of the input
	USD                                     float64
}

// minTTL is the shortest ttl that is granted: a task that expired at once would be a useless handle.
const minTTL = time.Second

// Runner runs tasks. Their status changes nowhere else.
// Start runs a new task; Get, Follow and Cancel also reach tasks of other processes.
type Runner struct {
	o      Options
	store  tasks.Store  // the owner's
	shared tasks.Shared // the same; nil if no other process finds its tasks

	ctx context.Context // ends the work of every Run
	end context.CancelFunc
	all signal.Counter // the Runs, their deliveries, and the Views that follow

	givenUp context.Context // ended by GiveUp
	giveUp  context.CancelFunc

	memory   partials.Memory
	starts   window
	requests window

	mu       sync.Mutex
	live     map[string]*Run  // runs with a handle that have not ended, or whose end is not stored
	followed map[string]*View // tasks of other processes that Follow follows
	hidden   map[string]*Run  // runs without a handle that the state keeps
	working  map[*Run]bool    // runs with a handle whose do has not returned, even if they have ended
	made     []madeTask       // the latest tasks that got a handle here, oldest first

	unrecorded unrecorded
	tallies    tallies

	watching bool // watchRequests runs (runner.go)
	watchers sync.WaitGroup
}

// madeTask is a task that this process has made.
type madeTask struct {
	id      string
	expires time.Time
}

// NewRunner makes a runner.
// A process has one for each owner that it serves; call Close at its end.
func NewRunner(o Options) *Runner {
	if o.State == nil {
		o.State = tasks.NewMemory()
	}
	o.Owner = cmp.Or(o.Owner, tasks.DefaultOwner)
	o.TTL = cmp.Or(o.TTL, tasks.DefaultTTL)
	o.MaxTTL = cmp.Or(o.MaxTTL, tasks.DefaultMaxTTL)
	o.MaxLasting = cmp.Or(o.MaxLasting, o.MaxTTL)
	o.PollInterval = cmp.Or(o.PollInterval, tasks.DefaultPollInterval)
	o.AskTimeout = cmp.Or(o.AskTimeout, 15*time.Second)
	o.MaxLive = cmp.Or(o.MaxLive, tasks.DefaultMaxLive)
	if o.now == nil {
		o.now = time.Now
	}
	if o.Observer == nil {
		o.Observer = unobserved{}
	}
	if o.Ended == nil {
		o.Ended = func(*tasks.Task) {}
	}
	ctx, end := context.WithCancel(context.Background())
	givenUp, giveUp := context.WithCancel(context.Background())
	store := o.State.Open(o.Owner)
	shared, _ := store.(tasks.Shared)
	return &Runner{o: o, store: store, shared: shared, ctx: ctx, end: end, givenUp: givenUp, giveUp: giveUp,
		live: map[string]*Run{}, followed: map[string]*View{}, hidden: map[string]*Run{},
		working:  map[*Run]bool{},
		starts:   window{limit: o.MaxStartsPerMinute, period: time.Minute},
		requests: window{limit: o.MaxRequestsPerSecond, period: time.Second},
	}
}

// Spec says what to run.
type Spec struct {
	// ID is the task's, from tasks.NewID; "" = a new one.
	ID   string
	Tool string
	// ClientName is Task.Client.
	ClientName string
	// Arguments of the call, as the client sent them.
	Arguments json.RawMessage
	// Handle gives the requestor a task id. The task is stored, can be found by the tasks methods, and counts
	// as live.
	Handle bool
	// Late allows a handle later (Run.Promote). Until then none of the output may be lost.
	Late bool
	// TTL is what the requestor asked for; 0 = nothing. Longest is how long the work may take; 0 = it is not
	// known. If nothing was asked for, the task is kept for at least twice as long: a ttl ends the work, too.
	TTL, Longest time.Duration
	// Lasts allows a ttl of MaxLasting.
	Lasts bool
	// Variables are the initial variables of the task, an encoded object from MergeVariables; nil = none.
	Variables json.RawMessage
	// Unrecorded keeps the run out of the history of calls: it looks after others.
	Unrecorded bool
	// Merge makes the merged segments the task's result, as SEP-1905 requires of a streaming task.
	Merge bool
	// Client gets what happens to the run; nil = it is told to no one.
	Client Client
	// Work is the tool. It writes to run.Log() and returns soon after ctx has ended.
	Work Work
}

// Client is how a Runner reaches the client that made a call. No method may block.
type Client interface {
	// Status gets every later status of the task, in order. The terminal one comes last.
	Status(t mcp.Task)
	// Silence is called before the end. After it has returned, nothing more of the task's
	// output may be written.
	Silence()
	// Asked gets a question of a task that another process runs. It returns a function that sends the
	// question to the client and passes on the answer, nil if the client reads the question from the task, or
	// an error if the client cannot be asked.
	Asked(q *Question) (send func(), err error)
	// Progress gets the progress of a task that another process runs.
	Progress(p tasks.Progress)
}

// Work is what a task does.
// It uses run to write to the log, to ask questions and to report progress.
type Work func(ctx context.Context, run *Run) Done

// Done is the outcome of the work.
// Work returns it.
type Done struct {
	Result *mcp.CallToolResult // nil = an empty one
	Status string              // the message of the terminal status
	Rest   *[]mcp.ContentBlock // the items of the result that do not repeat the output; nil = all
	Err    error               // the client gets the text of an *rpc.Error only
	// The secrets are masked already; a pattern may also match what runnel added after that.
	Masked bool
}

// Go runs f in a goroutine whose context ends when the runner is closed; Close waits for it. Once the runner
// is closed, Go does not run f and reports false.
// Use it for what must end before the state is closed.
func (r *Runner) Go(f func(ctx context.Context)) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.goLocked(f)
}

// goLocked is Go for callers that hold r.mu. Under that lock, Close waits for everything that was started
// before it.
func (r *Runner) goLocked(f func(ctx context.Context)) bool {
	if r.ctx.Err() != nil {
		return false
	}
	r.watchers.Go(func() { f(r.ctx) })
	return true
}

// noClient is the Client of a run without one.
type noClient struct{}

func (noClient) Status(mcp.Task) {}

func (noClient) Silence() {}

func (noClient) Asked(*Question) (func(), error) { return nil, nil }

func (noClient) Progress(tasks.Progress) {}

type unobserved struct{}

func (unobserved) Created(string) {}

func (unobserved) Ended(string, mcp.TaskStatus, time.Duration) {}

func (unobserved) Retrieved()         {}
func (unobserved) Used(string, Usage) {}

func (unobserved) Refused(string) {}

// Wait returns nil when no task runs any more, or ctx's error.
// Use it to let tasks end before Close.
func (r *Runner) Wait(ctx context.Context) error { return r.all.Wait(ctx) }

// Idle reports whether no task is running or being stored.
func (r *Runner) Idle() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.live)+len(r.working)+len(r.hidden) == 0
}

// Closing reports whether Close has begun: what runs is being stopped, and not cancelled by a client.
func (r *Runner) Closing() bool { return r.ctx.Err() != nil }

// Close cancels everything that runs and returns when it has ended: no goroutine of a tool and no child is
// left, except those that GiveUp leaves.
func (r *Runner) Close() {
	r.mu.Lock() // see goLocked
	r.end()
	r.mu.Unlock()
	_ = r.Wait(r.givenUp) // an error only says that GiveUp has been called
	r.watchers.Wait()
	r.recordAll()
}

// GiveUp lets Close return even if some work has not returned: nothing can stop a Go function that ignores
// its context. The tasks fail like all tasks that Close stops.
func (r *Runner) GiveUp() {
	r.mu.Lock()
	working := slices.Collect(maps.Keys(r.working))
	r.mu.Unlock()
	var aborted sync.WaitGroup // each may wait for its client
	for _, run := range working {
		if !run.worked.IsSet() { // otherwise its end is being stored, and finish waits for that
			r.o.Log.Error().Str("taskId", run.id).Str("owner", r.o.Owner).Str("tool", run.spec.Tool).
				Msg("a tool has not stopped: it is left behind")
		}
		aborted.Go(func() { run.abort(errClosed) })
	}
	aborted.Wait()
	r.giveUp()
}

// Each event of a task is recorded twice: in the log, with ids and the owner but never with content, and by
// an Observer that counts.

func (r *Runner) event(id string) *zerolog.Event {
	return r.o.Log.Info().Str("taskId", id).Str("owner", r.o.Owner)
}

func (r *Runner) recordCreated(t *tasks.Task) {
	r.event(t.ID).Str("tool", t.Tool).Msg("task created")
	r.o.Observer.Created(t.Tool)
}

func (r *Runner) recordEnded(t *tasks.Task) {
	took := t.UpdatedAt.Sub(t.CreatedAt)
	r.event(t.ID).Str("tool", t.Tool).Str("status", string(t.Status)).Int64("tookMs", took.Milliseconds()).
		Msg("task ended")
	r.o.Observer.Ended(t.Tool, t.Status, took)
}

// RecordRetrieved records that a client has got a task's result. "runnel tasks prune" keeps the task until
// then.
func (r *Runner) RecordRetrieved(id string) {
	// The client still gets its result.
	if err := r.store.MarkFetched(context.Background(), id); err != nil {
		r.o.Log.Warn().Err(err).Str("taskId", id).Msg("recording that the result was fetched")
	}
	r.event(id).Msg("task result retrieved")
	r.o.Observer.Retrieved()
}

// Used counts what the run's tool has taken of a language model.
func (r *Run) Used(u Usage) { r.runner.o.Observer.Used(r.Task().Tool, u) }

// Other processes on the same state can ask this process to cancel a task that it runs. It looks for such
// requests as long as it runs something that they can see.

// startWatching starts to look for requests of other processes, if that has not been started
// and there are others. r.mu is held.
func (r *Runner) startWatching() {
	if !r.watching && r.shared != nil {
		r.watching = true
		r.goLocked(r.watchRequests)
	}
}

// watchRequests cancels the tasks of this process that others ask to cancel, and aborts those that others
// have ended, until nothing that they can see runs any more.
func (r *Runner) watchRequests(ctx context.Context) {
	// Each is ended once, in a goroutine: its client or the state may delay that for long.
	requested := map[*Run]bool{}
	endOnce := func(run *Run, end func(run *Run)) {
		if run != nil && !requested[run] {
			requested[run] = r.Go(func(context.Context) { end(run) })
		}
	}
	for failed := false; ctx.Err() == nil && r.keepWatching(); {
		asked, fenced, err := r.shared.Heed(ctx)
		if err != nil && !failed && ctx.Err() == nil {
			r.o.Log.Warn().Err(err).Msg("looking for requests of other runnels")
		}
		failed = err != nil
		maps.DeleteFunc(requested, func(run *Run, _ bool) bool { return run.past(ended) })
		for _, id := range fenced {
			endOnce(r.Running(id), func(run *Run) { run.abort(tasks.ErrFenced) })
		}
		for _, id := range asked {
			endOnce(r.cancellable(id), func(run *Run) {
				message := "cancelled by the client"
				if !run.Task().Detached { // a detached task is always cancelled by another process
					message = "cancelled from elsewhere on this state, as by runnel tasks cancel, top or ui"
				}
				run.Cancel(message)
			})
		}
	}
}

// cancellable returns the run that other processes ask to cancel, nil if it has ended.
func (r *Runner) cancellable(id string) *Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	if run := r.hidden[id]; run != nil {
		return run
	}
	return r.live[id]
}

// keepWatching sets watching to whether something runs that other processes can see, and returns it.
func (r *Runner) keepWatching() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.watching = len(r.live)+len(r.hidden) > 0
	return r.watching
}
