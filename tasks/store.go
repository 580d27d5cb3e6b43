package tasks

import (
	"context"
	"errors"
)

var (
	// ErrNotFound is the one error for ids that are unknown, expired or somebody else's:
	// what does not belong to the owner is never hinted at.
	ErrNotFound = errors.New("task not found")
	// ErrTaken refuses to store what a process has of a task that is not its own any more.
	ErrTaken = errors.New("another runnel has ended the task, since it took this one for gone")
	// ErrRemoved refuses to store in a place that nobody will find: what has been told as stored would be gone with the process.
	ErrRemoved = errors.New("the state was removed or replaced while runnel used it")
	// ErrBusy refuses what may succeed when it is tried again: another process keeps this one from writing.
	ErrBusy = errors.New("another process has held the state locked")
	// ErrCursor refuses a cursor that tasks/list did not give.
	ErrCursor = errors.New("invalid cursor")
)

// Trouble is an error of a store in words for the user, who has to do something about it. Clients are told it, too; the text of other
// errors stays in the log.
type Trouble struct{ Err error }

func (e Trouble) Error() string { return e.Err.Error() }
func (e Trouble) Unwrap() error { return e.Err }

// Store keeps tasks. Its methods may be called by several goroutines.
type Store interface {
	// Put stores a new task or a later state of one. When it returns, the state is as durable as the store gets:
	// a task is put before its handle is sent, its outcome before its terminal status.
	Put(ctx context.Context, t Task) error
	// Get returns an owner's task, or ErrNotFound.
	Get(ctx context.Context, owner, id string) (Task, error)
	// List returns up to n of an owner's tasks in the order in which they were made, and the cursor
	// of the rest ("" if there is none). The first page has the cursor "".
	List(ctx context.Context, owner, cursor string, n int) ([]Task, string, error)
	// Delete forgets a task. A store deletes by itself what has expired.
	Delete(ctx context.Context, id string) error
}

// Shared is a Store whose tasks other processes run too.
type Shared interface {
	Store
	// Ask asks the process that runs a task to cancel it.
	Ask(ctx context.Context, owner, id string) error
	// SetVariables merges a patch into the variables of a task that has not ended, whoever runs it, and returns them all.
	// A patch that cannot be merged is an *rpc.Error.
	SetVariables(ctx context.Context, owner, id string, patch []byte) ([]byte, error)
	// Asked returns the tasks of this process that somebody asks to cancel.
	Asked(ctx context.Context) ([]string, error)
	// Lost returns the tasks of this process that others have ended since they took it for gone. Each is returned once.
	Lost(ctx context.Context) ([]string, error)

	// Take makes a task that another process has put, and has not begun, one of this process: a detached one. work says for
	// people what runs it. t has the id, the owner, the log and the segments; the rest is returned.
	Take(ctx context.Context, t Task, work []byte) (Task, error)
	// Taken lets go of a task of this process if another one has taken it, and reports whether it has.
	Taken(ctx context.Context, id string) (bool, error)
	// Follow returns a task as Get does, but with a log and segments that Look can move on.
	Follow(ctx context.Context, owner, id string) (Task, error)
	// Look brings a task that another process runs up to date.
	Look(ctx context.Context, t *Task) error
}

// Hider is a Store that can keep the output of a run that has no handle.
type Hider interface {
	// Hide stores a task that nobody finds, with its log: until it is put, or deleted.
	Hide(t Task) error
}

// Fetcher is a Store that keeps in mind whose result a client has got.
type Fetcher interface {
	// MarkFetched notes that a client has got the result of a task.
	MarkFetched(owner, id string) error
}
