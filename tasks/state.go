package tasks

import "context"

// State keeps tasks: in the memory of one process ([Memory]), or where several processes find them. Several goroutines call its methods.
// The package statetest holds a state against this contract.
//
// The process that puts a task first is its keeper: it runs the task and stores what comes of it. It stays the keeper until the task
// has ended or another process has taken it (Take). A keeper that dies is found out by the state, which ends its tasks as failed, with
// what they wrote; who comes back from the dead is refused with ErrFenced.
type State interface {
	// Put stores a new task, which works, or a later state of one of this process. When it returns, that is as durable as the state gets:
	// a task is put before its handle is sent, its outcome with its terminal status. Variables are not put again: SetVariables is
	// their one way. A state that keeps output backs the log (partials.Log.Back), and has stored all of it before the end can be seen:
	// where it could not, it refuses TaskCompleted with partials.ErrLost.
	// A task beyond the limits of its owner is refused with ErrTooManyLive or ErrTooManyStarts; one that is Ending never is.
	Put(ctx context.Context, t Task) error
	// Get returns an owner's task, or ErrNotFound. A task can be seen until it has ended and its ttl is over.
	Get(ctx context.Context, owner, id string) (Task, error)
	// Head returns a task as Get does, but without its segments and, if it has ended, without its outcome: whatever their size, it costs
	// the same. A task whose outcome is damaged may look as if it were not, until Get has read it.
	Head(ctx context.Context, owner, id string) (Task, error)
	// List returns up to n of an owner's tasks in the order in which they were made, and the cursor of the rest ("" if there is none).
	// The first page has the cursor "". Outcomes, logs and segments may be left out.
	List(ctx context.Context, owner, cursor string, n int) ([]Task, string, error)
	// Delete forgets a task. A state deletes by itself what has expired.
	Delete(ctx context.Context, owner, id string) error
	// SetVariables merges a patch (MergeVariables) into the variables of a task that has not ended, whoever runs it, and returns them
	// all. It fails with ErrEnded, or with a *rpc.Error if the patch cannot be merged.
	SetVariables(ctx context.Context, owner, id string, patch []byte) ([]byte, error)
	// MarkFetched notes that a client has got the result of a task.
	MarkFetched(ctx context.Context, owner, id string) error

	// Hide keeps a run of this process that has no handle, with its output, though nobody finds it until it is put: memory may not hold
	// all that it writes. It fails with errors.ErrUnsupported where there is no better place than memory.
	Hide(t Task) error

	// Ask asks the keeper of a task to cancel it. Nothing happens if the task has ended.
	Ask(ctx context.Context, owner, id string) error
	// Heed returns tasks of this process that others ask to cancel, each until it has ended, and those that others have ended since they
	// took it for gone, each until its end was put. It waits until there are some, for a moment only where it has to look.
	Heed(ctx context.Context) (asked, fenced []string, err error)

	// Take makes this process the keeper of a task that another one has put, and has not begun. work says for people what runs
	// it. t has the id, the owner, the log and the segments; the rest is returned.
	Take(ctx context.Context, t Task, work []byte) (Task, error)
	// Taken reports whether another process has taken a task of this one, which lets go of it then.
	Taken(ctx context.Context, id string) (bool, error)
	// Watch waits until something of a task that another process runs has changed, and brings t up to date: a task as Get returns it,
	// but with a log and segments that are followed (partials.Log.Follow). Who follows hears of the end that is stored though the ttl is
	// over by then: ErrNotFound means that it is forgotten.
	Watch(ctx context.Context, t *Task) error

	// Close stores what is not stored yet, and lets go of the state.
	Close() error
}
