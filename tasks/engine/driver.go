package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"runnel/partials"
	"runnel/tasks"
)

// Driver is what an engine keeps of one owner's tasks. Its errors are tasks.ErrBusy if another try may
// succeed, tasks.ErrFenced if a write names a keeper or a revision that is not the stored one, and
// tasks.ErrRemoved.
//
// Everything that is stored of a task is kept for at least Space.Lifetime, and then forgotten by the server
// or by Tidy.
type Driver interface {
	// Lease stores that this process lives for LeaseTTL from now on. If this process runs tasks, it should
	// succeed even if the server has no room for more.
	Lease(ctx context.Context) error
	// Alive returns the processes whose leases have not run out.
	Alive(ctx context.Context) ([]string, error)
	// Leave ends the lease of this process.
	Leave(ctx context.Context)

	// Sweeps reports whether this process sweeps for all of the owner's, which it does for LeaseTTL from now
	// on if no other one does. One that is not able, because its last sweep has failed, leaves that to
	// another one. Where an owner has few processes, all of them may sweep.
	Sweeps(ctx context.Context, able bool) (bool, error)

	// Marks returns which process keeps which task that has not ended, including hidden ones: those of one
	// keeper (or more), or all if it is empty. A mark may exist before its record, and after it.
	Marks(ctx context.Context, keeper string) ([]Mark, error)
	// Unmark removes a mark that no record knows.
	Unmark(ctx context.Context, m Mark) error
	// Tidy is called from time to time. It forgets what has expired, if the server does not do it by itself,
	// and keeps room in reserve for ends.
	Tidy(ctx context.Context) error

	// Read returns a task as it is stored now, without its outcome, or tasks.ErrNotFound. It includes expired
	// and hidden tasks. Where its output ends is known if it has ended, and after Extent.
	Read(ctx context.Context, id string) (*Record, error)
	// Extent finds where the stored output of a task ends: at r.End or, if the task has not ended, further
	// on. The caller has the output up to a position, or wants none (NoOutput); what follows it may be read
	// in passing (r.Ahead).
	Extent(ctx context.Context, r *Record, after int64) error
	// List returns up to n tasks, in the order of their creation or in the opposite one: those that follow a
	// place there, or the first ones if it is 0. It fails with tasks.ErrCursor if no task has had that place.
	// The record of a forgotten task is nil. What it costs depends on n, not on how many tasks there are.
	List(ctx context.Context, d tasks.Direction, from uint64, n int) ([]Place, error)
	// Place returns the place of a task, or tasks.ErrCursor if it has none.
	Place(ctx context.Context, id string) (uint64, error)
	// Outcome returns the outcome of a task that has ended, as End got it, or a Damage.
	Outcome(ctx context.Context, r *Record) ([]byte, error)
	// Measure finds where the output of a task without a writer ends (r.End), and where the head of a long
	// one does (r.Head).
	Measure(ctx context.Context, r *Record) error
	// Output returns a loader for the output of a task up to a position.
	Output(id string, end func() int64) Output
	// Ends returns where segments end after number n, which ends at position last, up to r.End. It fails with
	// partials.ErrEnds (see Numbers).
	Ends(ctx context.Context, r *Record, n int, last int64) ([]int64, error)

	// Insert stores a new task of this process, unless its owner has too many, and sets r.Revision. A task
	// with an offer (r.Body) waits for a worker from then on.
	Insert(ctx context.Context, r *Record) error
	// Write stores a later version of a task of this process that has not ended, and sets r.Revision. With
	// wasHidden the task becomes visible: it counts against the limits, and gets its variables.
	Write(ctx context.Context, r *Record, wasHidden bool) error
	// End stores the end of a task of r.Keeper, with the stored variables. Whoever reads it also finds its
	// outcome.
	End(ctx context.Context, r *Record, outcome []byte) error
	// Append stores output of a task of this process. It may be called again with the same batch, part of
	// which may already be stored.
	Append(ctx context.Context, r *Record, b *Batch) error
	// Take stores a task with this process as its new keeper, and sets r.Revision.
	Take(ctx context.Context, r *Record, before string) error
	// SetVariables replaces variables, unless they have changed since r was read (tasks.ErrFenced) or the
	// task has ended (tasks.ErrEnded).
	SetVariables(ctx context.Context, r *Record, merged []byte) error
	// MarkFetched notes that a client has the result.
	MarkFetched(ctx context.Context, r *Record) error
	Fetched(ctx context.Context, ids []string) (map[string]bool, error)
	// Delete forgets a task.
	Delete(ctx context.Context, id string) error

	// Session, PutSession and DeleteSession are those of tasks.Sessions. The id is a token.
	Session(ctx context.Context, id string) (session []byte, version uint64, err error)
	PutSession(ctx context.Context, id string, session []byte, version uint64) (uint64, error)
	DeleteSession(ctx context.Context, id string) error

	// Check describes for people what the server has of the owner.
	Check(ctx context.Context) (string, error)

	// Ask lets the keeper of a task hear that somebody wants it cancelled: through Space.Want there, or
	// Asked.
	Ask(ctx context.Context, r *Record) error
	// Asked returns the tasks of this process that others have asked to cancel, if the engine stores that.
	Asked(ctx context.Context) ([]string, error)
	// Hear returns a Hearing for news of a task. A look finds what it misses.
	Hear(ctx context.Context, id string) (Hearing, error)
}

// NoOutput is the position of a caller of Driver.Extent that only wants to know where the output ends.
const NoOutput = -1

// Mark says that a process keeps a task.
type Mark struct {
	ID, Keeper string
	Hidden     bool
}

// Place is a task in a list.
type Place struct {
	Number uint64 // rises with each new task
	Record *Record
}

// Output loads output for partials.Backing.
type Output interface {
	Load(ctx context.Context, pos int64, limit int) ([]partials.Extent, error)
}

// Hearing waits for news of a task.
type Hearing interface {
	// Wait returns when there may be news, or when ctx ends.
	Wait(ctx context.Context) (News, error)
	// Found is called when there was news: more may follow soon.
	Found()
	Close()
}

// News is what a Hearing has heard of a task, so that it need not be read. The zero value says that anything
// may have changed.
type News struct {
	Record  *Record // as it was stored, without variables unless the task has ended; nil = it has not changed
	Outcome []byte  // of a task that has ended; nil = unknown

	End     int64             // where the output ends, if more was stored
	Output  []partials.Extent // the last of it; none = unknown
	Numbers []NumberRow
}

// none reports whether nothing is known.
func (n *News) none() bool { return n.Record == nil && n.End == 0 }

// NumberRow is where segments end, as partials.EncodeEnds has written it, beginning with the number First.
type NumberRow struct {
	First int64
	Row   []byte
}

// Damage is the reason why something stored is invalid.
type Damage string

func (d Damage) Error() string { return string(d) }

const (
	// LeaseTTL is how long a silent process counts as alive: longer than servers need to start, or to elect a
	// leader.
	LeaseTTL = 15 * time.Second
	// RenewInterval is how often a lease is renewed, and how long a process without one gets before it counts
	// as gone.
	RenewInterval = 4 * time.Second
	// sweepInterval is how often a process looks for tasks whose keeper is gone.
	sweepInterval = 5 * time.Second
	// LastNews is how long after its keeper's death a task ends at the latest.
	LastNews = LeaseTTL + 2*sweepInterval
)

// Queue is what an engine keeps of tasks that wait for a worker, in addition to their records. What it shows
// is a hint, and the record decides: a lost hint is shown again, and a superfluous one leads to a task that
// does not wait.
type Queue interface {
	// Lives reports whether a process has a lease that has not run out.
	Lives(ctx context.Context, keeper string) (bool, error)
	// Waiting returns the ids of the tasks that are marked as waiting.
	Waiting(ctx context.Context) ([]string, error)
	// PutWaiting marks a task as waiting, stores its offer, if r.Body has a new one, and its record, which
	// says that it waits, sets r.Revision, and removes the mark of the keeper before.
	PutWaiting(ctx context.Context, r *Record, before string) error
	// Show lets workers see a waiting task. Showing it twice is the same as once.
	Show(ctx context.Context, r *Record) error
	// Unshow takes a task that no longer waits out of what workers see.
	Unshow(ctx context.Context, r *Record)
	// Shown returns what workers can see: tasks by class, in the order in which they wait: by priority, then
	// by time.
	Shown(ctx context.Context) (map[string][]InLine, error)
	// Reach is called by each sweep while tasks wait. It makes what is shown reach workers again, if
	// something in the server keeps it from them.
	Reach(ctx context.Context) error
}

// InLine is a task that workers can see.
type InLine struct {
	ID    string
	Since time.Time // when it was offered
}

// Away is a tasks.ErrBusy: the servers do not answer. Engines return it with the reason.
type Away struct{ Err error }

func (a Away) Error() string { return a.Err.Error() }

func (a Away) Unwrap() error { return a.Err }

// Is reports that another try may succeed.
func (a Away) Is(target error) bool { return target == tasks.ErrBusy }

// ErrNoRoom is part of an engine's error if the server has no room for what is to be stored.
var ErrNoRoom = errors.New("the state is full")

// CheckSchema returns an error unless what is stored in a place has the version that this runnel knows.
func CheckSchema(place, found, known string) error {
	if found == known {
		return nil
	}
	return fmt.Errorf("%s has version %.32q, and this runnel knows %s: use the runnel that made it, or "+
		"another prefix (?prefix=NAME)", place, found, known)
}

// Removed is the error for a place whose content was deleted while this process used it.
func Removed(place string) error {
	return tasks.Trouble{Err: fmt.Errorf("%w: %s is gone; start runnel again, which makes a new one",
		tasks.ErrRemoved, place)}
}

// Newer is the error for a place that a newer runnel has changed while this process used it.
func Newer(place string) error {
	return tasks.Trouble{Err: fmt.Errorf("a newer runnel has changed how tasks are stored in %s: use that one", place)}
}
