package engine

import (
	"context"
	"time"

	"runnel/partials"
)

// Engine is a server, or a cluster of them, that keeps tasks for a State.
type Engine interface {
	// Connect connects to the server, unless it is connected.
	Connect(ctx context.Context) error
	// Open returns what the server keeps of an owner's tasks, which is made if there is nothing, and the queue of those that wait for
	// workers, nil if the engine has none.
	Open(ctx context.Context, sp *Space) (Store, Queue, error)
	// Disconnect lets go of the server.
	Disconnect()
}

// Store is what an engine keeps of the tasks of one owner. Its errors are tasks.ErrBusy where the same may succeed when it is tried again,
// tasks.ErrFenced where a write names a keeper, or a revision, that is not the one that is stored, and tasks.ErrRemoved.
//
// All that is stored of a task is kept for Space.Left at least, and forgotten by the server or by DropExpired.
type Store interface {
	// Lease stores that this process lives for LeaseTTL from now on. It must succeed where the server has no room for tasks.
	Lease(ctx context.Context) error
	// Alive returns the processes whose leases have not run out.
	Alive(ctx context.Context) ([]string, error)
	// Leave ends the lease of this process.
	Leave(ctx context.Context)

	// Marks returns who keeps which tasks that have not ended, hidden ones, too. A mark may stand before its record, and longer.
	Marks(ctx context.Context) ([]Mark, error)
	// Unmark takes a mark away of which no record knows.
	Unmark(ctx context.Context, m Mark) error
	// DropExpired forgets what has expired, if the server does not do it by itself.
	DropExpired(ctx context.Context) error

	// Read returns a task as it is stored now, without its outcome, or tasks.ErrNotFound. It shows expired and hidden ones, too.
	Read(ctx context.Context, id string) (*Record, error)
	// List returns up to n tasks whose places are after one, in the order in which they were made. It fails with tasks.ErrCursor where
	// no task has had that place. Records of one that is forgotten are nil.
	List(ctx context.Context, after uint64, n int) ([]Place, error)
	// Outcome returns the outcome of a task that has ended, as End got it, or a Damage.
	Outcome(ctx context.Context, r *Record) ([]byte, error)
	// Measure finds where the output of a task ends that nobody writes (r.End), and where the head of a long one does (r.Head).
	Measure(ctx context.Context, r *Record) error
	// Output returns what loads the output of a task up to a position.
	Output(id string, end func() int64) Output
	// Ends reads where segments end after number n, which ends at position last, up to r.End. It fails with partials.ErrEnds.
	Ends(ctx context.Context, r *Record, n int, last int64) ([]int64, error)

	// Insert stores a new task of this process, unless its owner has too many, and sets r.Revision.
	Insert(ctx context.Context, r *Record) error
	// Write stores a later state of a task of this process that has not ended, and sets r.Revision. If wasHidden, the task can be seen
	// from now on: it counts for the limits, and gets its variables.
	Write(ctx context.Context, r *Record, wasHidden bool) error
	// End stores the end of a task, of r.Keeper, with the variables that stand there. Who reads it finds its outcome, too.
	End(ctx context.Context, r *Record, wasHidden bool, outcome []byte) error
	// Append stores output of a task of this process. It may be called again with the same batch, some of which may be stored then.
	Append(ctx context.Context, r *Record, b *Batch) error
	// Take stores a task with another keeper, this process, and sets r.Revision.
	Take(ctx context.Context, r *Record, before string) error
	// SetVariables replaces variables, unless they have changed since r was read (tasks.ErrFenced) or the task has ended (tasks.ErrEnded).
	SetVariables(ctx context.Context, r *Record, merged []byte) error
	// MarkFetched notes that a client has the result; Fetched returns for which of some tasks that was noted.
	MarkFetched(ctx context.Context, r *Record) error
	Fetched(ctx context.Context, ids []string) (map[string]bool, error)
	// Delete forgets a task of whatever keeper, if keeper is "", else one of that keeper.
	Delete(ctx context.Context, id, keeper string) error

	// Ask lets the keeper of a task hear that somebody wants it cancelled: through Space.Want there, or Asked.
	Ask(ctx context.Context, r *Record) error
	// Asked returns the tasks of this process that others have asked to cancel, if the engine stores that.
	Asked(ctx context.Context) ([]string, error)
	// Hear returns what hears that something of a task was stored. What it misses is found by looking.
	Hear(ctx context.Context, id string) (Hearing, error)
}

// Mark says that a process keeps a task.
type Mark struct {
	ID, Keeper string
	Hidden     bool
}

// Place is a task in a list.
type Place struct {
	Number uint64 // rises with each task that is made
	Record *Record
}

// Output loads output, as partials.Backing does.
type Output interface {
	Load(ctx context.Context, pos int64, limit int) ([]partials.Extent, error)
}

// Hearing waits for what is stored of a task.
type Hearing interface {
	// Wait returns when there may be something new, or when ctx ends.
	Wait(ctx context.Context) error
	Close()
}

// Damage says why what is stored cannot be believed.
type Damage string

func (d Damage) Error() string { return string(d) }

const (
	// LeaseTTL is how long a process counts as alive that nothing is heard of: longer than servers need to start, or to elect a leader.
	LeaseTTL = 15 * time.Second
	// RenewInterval is how often a lease is renewed, and how long a process has that is found without one.
	RenewInterval = 4 * time.Second
	// sweepInterval is how often tasks are looked for whose keeper is gone.
	sweepInterval = 5 * time.Second
	// LastNews is how long after its keeper's death a task ends at the latest.
	LastNews = LeaseTTL + 2*sweepInterval
)
