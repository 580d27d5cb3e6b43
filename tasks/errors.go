package tasks

import (
	"errors"

	"runnel/rpc"
	"runnel/rpc/mcp"
)

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
