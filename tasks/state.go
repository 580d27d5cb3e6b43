package tasks

import (
	"context"
	"errors"
	"time"

	"runnel/rpc"
	"runnel/rpc/mcp"
)

// State keeps tasks: in the memory of one process ([Memory]), or where several processes find them. Package
// statetest tests a state against this contract.
type State interface {
	// Open returns the store of an owner's tasks. It waits for no server: the store connects when it is first
	// used. An owner that is opened again has the same store.
	Open(owner string) Store
	// Close stores what is not yet stored, and releases the state and its stores.
	Close() error
}

// Store keeps the tasks of one owner. Its methods may be called by several goroutines at once.
//
// The process that first puts a task is its keeper: it runs the task and stores its outcome. It stays the
// keeper until the task has ended or another process has taken it (Shared.Take). The store notices when a
// keeper dies, and ends its tasks as failed, with their output so far. A keeper that comes back after that
// gets ErrFenced.
type Store interface {
	// Put stores a new task, which is working, or a later version of a task of this process. When it returns,
	// the task is as durable as the state makes it: a task is put before its handle is sent, and its outcome
	// together with its terminal status. Put does not change variables: only SetVariables does. A store that
	// keeps output backs the log (partials.Log.Back), and stores all of it before the end can be seen; if it
	// cannot, it refuses TaskCompleted with partials.ErrLost. A task beyond the limits of its owner is
	// refused with ErrTooManyLive or ErrTooManyStarts, except one that is Ending.
	//
	// A new task that is Hidden is not found until it is put again, and no limit applies to it: it is kept,
	// with its output, because memory may not hold all that it writes. A store that has no better place than
	// memory refuses it with errors.ErrUnsupported.
	Put(ctx context.Context, t Task) error
	// Get returns a task, or ErrNotFound. A task is visible until it has ended and its ttl is over.
	Get(ctx context.Context, id string) (Task, error)
	// Head returns a task like Get, but without its segments and, if it has ended, without its outcome, so
	// that its cost does not depend on their size. A damaged outcome may go unnoticed until Get reads it.
	Head(ctx context.Context, id string) (Task, error)
	// List returns up to n tasks, and where the rest begins, "" if there is none. The first page is from "";
	// NewestFirst, a page may also be from the id of a task: those that are older. It fails with ErrCursor if
	// from is unknown. Outcomes, logs and segments may be missing.
	List(ctx context.Context, d Direction, from string, n int) (page []Task, rest string, err error)
	// Delete deletes a task and its files (FilesID). A store deletes expired tasks by itself.
	Delete(ctx context.Context, id string) error
	// SetVariables merges a patch (MergeVariables) into the variables of a task that has not ended, wherever
	// it runs, and returns them all. It fails with ErrEnded, or with a *rpc.Error if the patch cannot be
	// merged.
	SetVariables(ctx context.Context, id string, patch []byte) ([]byte, error)
	// MarkFetched records that a client has got the result of a task.
	MarkFetched(ctx context.Context, id string) error
}

// Shared is a Store whose tasks other processes find and run, too.
type Shared interface {
	Store
	// Ask asks the keeper of a task to cancel it. Nothing happens if the task has ended.
	Ask(ctx context.Context, id string) error
	// Heed returns the tasks of this process that others ask to cancel, each until it has ended, and those
	// that others have ended because they believed that this process was gone, each until its end is put. It
	// waits until there are some; a store that has to poll may return after a moment with none. It also waits
	// before it returns an error.
	Heed(ctx context.Context) (asked, fenced []string, err error)

	// Take makes this process the keeper of a task that another one has put, but not begun. work describes
	// the new keeper to people. The id, the log and the segments are those of t; the rest is returned.
	Take(ctx context.Context, t Task, work []byte) (Task, error)
	// Taken reports whether another process has taken a task of this one, which is then no longer its keeper.
	Taken(ctx context.Context, id string) (bool, error)
	// Left returns the tasks with a ResumeNote whose keeper is gone, with their variables. Only Take decides
	// who continues one: another process may be faster.
	Left(ctx context.Context) ([]Task, error)
	// Watch waits until a task that another process runs has changed, and brings t up to date: a task as Get
	// returns it, but with a log and segments that are followed (partials.Log.Follow). It reports a stored
	// end even if the ttl is over by then: ErrNotFound means that the task was deleted.
	Watch(ctx context.Context, t *Task) error

	// Lapsed returns why others may take this process for gone: why its lease could not be renewed when that
	// was last tried, nil if it was. A store that takes no lease takes no task either, even if it still
	// answers questions.
	Lapsed() error
}

// Direction is the order of a list of tasks.
type Direction bool

// The tasks of a list come in the order of their creation, or in the opposite one.
const (
	OldestFirst Direction = false
	NewestFirst Direction = true
)

// Defaults of a Runner (package run) and a State, and of how calls are answered (package tools). Those of a
// config file are the same.
const (
	DefaultOwner         = "local"
	DefaultTTL           = time.Hour
	DefaultMaxTTL        = 24 * time.Hour
	DefaultMaxLasting    = 7 * 24 * time.Hour // of calls that wait for people
	DefaultPollInterval  = 2 * time.Second
	DefaultMaxLive       = 100
	DefaultMaxState      = 4 << 30
	DefaultSyncWait      = 50 * time.Second // the most common hosts give up after 60 s
	DefaultImmediateWait = 100 * time.Millisecond
	DefaultHeartbeat     = 10 * time.Second
)

// History limits what a state keeps of the calls that have ended without a handle. The zero value keeps none.
type History struct {
	Calls int           // of an owner; the oldest are forgotten first
	Age   time.Duration // since they began
	Log   int           // bytes of the end of each one's output, and of its result
}

// Historian is a Store that keeps such calls.
type Historian interface {
	History() History
	// Record stores calls that have ended, whether they were put as Hidden or not. They need not survive a
	// loss of power.
	Record(calls ...Task) error
}

// Limits are how much one owner may do. A state counts the tasks of all its processes; each process counts
// the requests of the client that it serves.
type Limits struct {
	MaxLive              int // tasks with a handle that have not ended; 0 = DefaultMaxLive
	MaxStartsPerMinute   int // 0 = no limit
	MaxRequestsPerSecond int // task methods; 0 = no limit
}

// Sessions is a Store that keeps the sessions of HTTP clients, so that several fronts can serve one client.
type Sessions interface {
	// Session returns what is stored of a session, and its version; nil if there is none.
	Session(ctx context.Context, id string) (session []byte, version uint64, err error)
	// PutSession stores a session for SessionTTL if the stored one has this version (0: there is none), and
	// returns its new version; 0 if the stored one has another version.
	PutSession(ctx context.Context, id string, session []byte, version uint64) (uint64, error)
	DeleteSession(ctx context.Context, id string) error
}

// SessionTTL is how long a session is kept after it was put: a client comes back to it after a weekend.
const SessionTTL = 7 * 24 * time.Hour

var (
	// ErrNotFound is the error for every id that is unknown, expired or of another owner: nothing may reveal
	// that another owner's task exists.
	ErrNotFound = errors.New("task not found")
	// ErrCursor refuses a cursor that List has not returned.
	ErrCursor = errors.New("invalid cursor")
	// ErrFenced refuses a write to a task by a process that is no longer its keeper.
	ErrFenced = errors.New("another runnel has ended the task, since it believed that this one was gone")
	// ErrTaken refuses to take a task that has ended, or that another process runs.
	ErrTaken = errors.New("the task has ended, or another process runs it")
	// ErrBusy refuses what may succeed on another try: another process has kept this one from writing.
	ErrBusy = errors.New("another process has held the state locked")
	// ErrRemoved refuses to store in a place that no other process will find: what was reported as stored
	// would be lost with this one.
	ErrRemoved = errors.New("the state was removed or replaced while runnel used it")
	// ErrTooManyLive refuses a task of an owner who has as many live ones as Limits allows.
	ErrTooManyLive = errors.New("too many live tasks")
	// ErrTooManyStarts refuses a task that would be one start too many within a minute.
	ErrTooManyStarts = errors.New("too many tasks started")
	// ErrEnded refuses what is only possible before the task has ended.
	ErrEnded = errors.New("the task has ended")
	// ErrEnding refuses to cancel a task whose work has ended, but whose end is not stored yet.
	ErrEnding = errors.New("the task has ended, but its end is not stored yet: another process holds the state")
	// ErrAsked reports that the process which runs the task was asked to cancel it, but has not done so yet.
	ErrAsked = errors.New("the process that runs the task was asked to cancel it, but has not done so")
)

// Trouble is an error of a state, worded for a user who has to do something about it. Clients get its text,
// too; that of other errors is only logged.
// A state returns it where the user can do something about it, such as a full disk.
type Trouble struct{ Err error }

// Error returns the text of Err.
func (e Trouble) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e Trouble) Unwrap() error { return e.Err }

// WireError gives an error of this package its JSON-RPC code. This is the only place that does.
// Call it on the way out of every method about tasks.
func WireError(err error) error {
	switch {
	case errors.Is(err, ErrNotFound):
		return rpc.Errorf(mcp.CodeInvalidParams, "task not found: it is unknown or has expired")
	case errors.Is(err, ErrCursor):
		return rpc.Errorf(mcp.CodeInvalidParams,
			"invalid cursor: use the nextCursor of the page before, or none")
	case errors.As(err, new(Trouble)) || errors.Is(err, ErrAsked) || errors.Is(err, ErrEnding):
		// The user has to do something about it.
		return rpc.Errorf(mcp.CodeInternalError, "%v", err)
	default:
		return err
	}
}

// Prunable is a task, as Prune needs it.
type Prunable struct {
	Task
	Above   string // the id of the one whose work has begun it, "" if there is none
	Fetched bool   // a client has got its result
}

// Prune returns the tasks that "runnel tasks prune" deletes: those that had ended at a time. It keeps those
// that a task which goes on has begun and, unless forced, those whose result has not been fetched; kept is
// the number of these. No client fetches what steps have begun: that counts as fetched if the result of the
// steps was, or if they were deleted. all are the tasks of an owner, oldest first.
func Prune(all []Prunable, ended time.Time, force bool) (gone []Task, kept int) {
	known := make(map[string]*Prunable, len(all))
	for i := range all {
		t := &all[i]
		known[t.ID] = t
		above := known[t.Above] // it is older
		if t.Above != "" && (above == nil || above.Fetched) {
			t.Fetched = true
		}
		switch {
		case !t.Status.Terminal() || t.UpdatedAt.After(ended) || IsFiles(t.ID):
		case above != nil && !above.Status.Terminal():
		case !t.Fetched && !force:
			kept++
		default:
			gone = append(gone, t.Task)
		}
	}
	return gone, kept
}
