package tasks

import (
	"cmp"
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/tools/secrets"
)

// Options of a Runner. The zero value works: a state, an owner or a time that is zero means what its comment begins with.
type Options struct {
	State        State         // NewMemory
	Owner        string        // DefaultOwner: whose tasks are run and found
	TTL          time.Duration // DefaultTTL: for a task whose requestor asks for none
	MaxTTL       time.Duration // DefaultMaxTTL
	PollInterval time.Duration // DefaultPollInterval: what tasks suggest to clients that poll
	AskTimeout   time.Duration // 15 s: how long another process may take to cancel a task, a command's grace period and more
	Limits
	Observer   Observer
	MaxPending int // partials.LogOptions.MaxPending
	// ErrorsComplete ends a task whose tool returned an error result as completed, against the specification, for
	// hosts that never fetch the result of a failed task.
	ErrorsComplete bool
	Secrets        *secrets.Current // what a run that begins must not show; nil = nothing
	Log            zerolog.Logger

	now func() time.Time // time.Now but in tests
}

// Observer counts what happens to the tasks of a Runner. Its methods must not block.
type Observer interface {
	Created(tool string)
	Ended(tool string, status mcp.TaskStatus, took time.Duration)
	Retrieved()         // a result
	Refused(why string) // RefusedLive, RefusedStarts, RefusedRequests or RefusedStore
}

// minTTL is the shortest ttl that is honoured: a task that expired at once would be a handle to nothing.
const minTTL = time.Second

// Runner runs tasks and is the one place where their status changes.
type Runner struct {
	o   Options
	ctx context.Context // ends the work of every Run
	end context.CancelFunc
	all sync.WaitGroup // counts the Runs and their deliveries

	givenUp context.Context // ended by GiveUp
	giveUp  context.CancelFunc

	merging chan struct{} // holds an element for each merged result that is being answered

	memory   partials.Memory
	starts   window
	requests window

	mu       sync.Mutex
	live     map[string]*Run  // Runs with a handle that have not ended, or whose end is not stored
	followed map[string]*View // Follow: tasks that other processes run
	hidden   map[string]*Run  // Runs without a handle that the state keeps
	made     []madeTask       // the last tasks that got a handle here, oldest first
	working  map[*Run]bool    // Runs with a handle whose Do has not returned, though they may have ended

	watching bool // requests of other processes are looked for (heed.go)
	watchers sync.WaitGroup
}

// madeTask is a task that this process has made.
type madeTask struct {
	id      string
	expires time.Time
}

// NewRunner makes a runner.
func NewRunner(o Options) *Runner {
	if o.State == nil {
		o.State = NewMemory()
	}
	o.Owner = cmp.Or(o.Owner, DefaultOwner)
	o.TTL = cmp.Or(o.TTL, DefaultTTL)
	o.MaxTTL = cmp.Or(o.MaxTTL, DefaultMaxTTL)
	o.PollInterval = cmp.Or(o.PollInterval, DefaultPollInterval)
	o.AskTimeout = cmp.Or(o.AskTimeout, 15*time.Second)
	o.MaxLive = cmp.Or(o.MaxLive, DefaultMaxLive)
	if o.now == nil {
		o.now = time.Now
	}
	if o.Observer == nil {
		o.Observer = unobserved{}
	}
	ctx, end := context.WithCancel(context.Background())
	givenUp, giveUp := context.WithCancel(context.Background())
	return &Runner{o: o, ctx: ctx, end: end, givenUp: givenUp, giveUp: giveUp,
		live: map[string]*Run{}, followed: map[string]*View{}, hidden: map[string]*Run{}, working: map[*Run]bool{},
		merging:  make(chan struct{}, maxMerging),
		starts:   window{limit: o.MaxStartsPerMinute, period: time.Minute},
		requests: window{limit: o.MaxRequestsPerSecond, period: time.Second},
	}
}

// Spec says what to run.
type Spec struct {
	Tool string
	// Arguments of the call, as the client sent them.
	Arguments json.RawMessage
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
	// Client hears of the run while it goes on; nil if nobody does.
	Client Client
	// Work is the tool. It writes to run.Log() and ends soon after ctx does.
	Work Work
}

// Client is told of a run by its Runner. No method may block.
type Client interface {
	// Begin is called before the work starts, so that nothing of the output is missed. The task does not end before Run.Deliver has
	// been called and what it started has written the last of the output.
	Begin(run *Run)
	// Status is told every later status of the task, in order, the terminal one last.
	Status(t mcp.Task)
	// Silence is called before the end, and after Begin: after it has returned, nothing of the task's output may be written any more.
	Silence()
	// Asked is told of a question of a task that another process runs. It returns what sends it to the client, and gives the answer; nil if the
	// client finds it at its task; an error if the client cannot be asked.
	Asked(q *Question) (send func(), err error)
	// Progress is told how far a task is that another process runs.
	Progress(p Progress)
}

// Work does what a task is for.
type Work func(ctx context.Context, run *Run) Done

// Done is what work has come to.
type Done struct {
	Result *mcp.CallToolResult // nil = an empty one
	Status string              // what the task's status says once it has ended
	Rest   *[]mcp.ContentBlock // the items of the result that do not repeat the output; nil = all
	Err    error               // the text of one that is not an *rpc.Error stays in the log
}

// maxMerging is how many merged results are in memory at once.
const maxMerging = 2

// Go runs f in a goroutine whose context ends when the runner is closed; Close waits for it. After that f is not run, and Go reports false.
func (r *Runner) Go(f func(ctx context.Context)) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.goWatch(f)
}

// goWatch is Go. r.mu is held: Close waits for what has been started before it.
func (r *Runner) goWatch(f func(ctx context.Context)) bool {
	if r.ctx.Err() != nil {
		return false
	}
	r.watchers.Go(func() { f(r.ctx) })
	return true
}

// nobody is the Client of a run of which nobody hears.
type nobody struct{}

func (nobody) Begin(*Run)                      {}
func (nobody) Status(mcp.Task)                 {}
func (nobody) Silence()                        {}
func (nobody) Asked(*Question) (func(), error) { return nil, nil }
func (nobody) Progress(Progress)               {}

type unobserved struct{}

func (unobserved) Created(string)                              {}
func (unobserved) Ended(string, mcp.TaskStatus, time.Duration) {}
func (unobserved) Retrieved()                                  {}
func (unobserved) Refused(string)                              {}
