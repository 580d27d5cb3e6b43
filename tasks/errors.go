package tasks

import (
	"errors"

	"runnel/rpc"
	"runnel/rpc/mcp"
)

var (
	// ErrNotFound is the one error for ids that are unknown, expired or somebody else's:
	// what does not belong to the owner is never hinted at.
	ErrNotFound = errors.New("task not found")
	// ErrCursor refuses a cursor that List did not give.
	ErrCursor = errors.New("invalid cursor")
	// ErrFenced refuses a write to a task by a process that is no longer its keeper.
	ErrFenced = errors.New("another runnel has ended the task, since it took this one for gone")
	// ErrBusy refuses what may succeed when it is tried again: another process keeps this one from writing.
	ErrBusy = errors.New("another process has held the state locked")
	// ErrRemoved refuses to store in a place that nobody will find: what has been told as stored would be gone with the process.
	ErrRemoved = errors.New("the state was removed or replaced while runnel used it")
	// ErrTooManyLive and ErrTooManyStarts refuse a task beyond the limits of its owner.
	ErrTooManyLive   = errors.New("too many live tasks")
	ErrTooManyStarts = errors.New("too many tasks started")
	// ErrEnded refuses what only a task that has not ended can do.
	ErrEnded = errors.New("the task has ended")
	// ErrEnding refuses to cancel a task whose work has ended, but whose end is not stored yet.
	ErrEnding = errors.New("the task has ended, but its end waits to be stored: another process holds the state")
	// ErrAsked says that a task is asked to cancel, but has not ended yet.
	ErrAsked = errors.New("the task is asked to cancel, but the process that runs it has not done it")
)

// Why the work of a run is cut off.
var (
	errCancelled = errors.New("cancelled")
	errExpired   = errors.New("expired")
	errClosed    = errors.New("runnel was stopped")
	errLeft      = errors.New("not followed any more") // the last who needed it has gone
)

// Trouble is an error of a state in words for the user, who has to do something about it. Clients are told it, too; the text of other
// errors stays in the log.
type Trouble struct{ Err error }

func (e Trouble) Error() string { return e.Err.Error() }

func (e Trouble) Unwrap() error { return e.Err }

// WireError is the one place where an error of this room gets its code.
func WireError(err error) error {
	switch {
	case errors.Is(err, ErrNotFound):
		return rpc.Errorf(mcp.CodeInvalidParams, "task not found: it is unknown or has expired")
	case errors.Is(err, ErrCursor):
		return rpc.Errorf(mcp.CodeInvalidParams, "invalid cursor: use the nextCursor of the page before, or none")
	case errors.As(err, new(Trouble)) || errors.Is(err, ErrAsked) || errors.Is(err, ErrEnding): // somebody has to do something about it
		return rpc.Errorf(mcp.CodeInternalError, "%v", err)
	default:
		return err
	}
}
