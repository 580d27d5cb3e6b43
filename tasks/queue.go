package tasks

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"runnel/rpc/mcp"
)

// Queue is a State whose tasks can wait for a worker: a runnel, on whatever machine, that runs tasks which others have stored. A state
// need not be one.
//
// A task that waits has no keeper, and does not need one: the state ends it when it has waited for too long, and whoever cancels it ends it.
// A task that a worker takes (Take) is then one of its own, like any other. The task of a worker that dies waits again as long as its offer
// has retries left; its output goes on where it was.
type Queue interface {
	State
	// Offer makes a task that this process has put, and has not begun, wait for a worker. It lets go of the task.
	Offer(ctx context.Context, owner, id string, o Offer) error
	// Next returns a task that waits for a worker of one of the classes, the next of each owner in turn, when there is one. It is Take that
	// decides who runs it: others may have ended it meanwhile.
	Next(ctx context.Context, owners, classes []string) (*Offered, error)
	// Announce tells an owner's runnels what a worker does. They forget it soon, unless it is told again and again, and with nil at once.
	Announce(ctx context.Context, owner string, w *Worker) error
	// Fleet returns the workers that an owner's runnels can use, and how many of the owner's tasks wait for each class.
	Fleet(ctx context.Context, owner string) (workers []Worker, waiting map[string]int, err error)
}

// Offer is what a worker is told of a task beside its tool's name. It holds no path and no environment: those are the worker's own.
type Offer struct {
	Class     string          // of the workers that may take it
	Arguments json.RawMessage // of the call
	Confirmed bool            // the user has confirmed it, where it was called
	Polls     bool            // get_task_result is listed for the client that made the call
	Client    FarClient       // that made the call
	Timeout   time.Duration   // how long it may wait for a worker, each time
	Retries   int             // how often it waits again, when its worker is gone
}

// FarClient is what a worker knows of the client that made a call: it puts its questions where that one finds them, and says how far it is.
type FarClient struct {
	Asks     mcp.ClientCapabilities `json:"asks,omitzero"`      // elicitation, sampling and roots: what it can be asked for
	Progress bool                   `json:"progress,omitempty"` // it wants to hear how far the call is
}

// Offered is a task that waits for a worker.
type Offered struct {
	Task Task // its id, its owner, its tool
	Offer

	// One of these must be called, once it is known what has become of it.
	Done   func() // it is taken, or can be by nobody any more
	Return func() // another worker may take it, or this one, later
}

// Worker is what a worker tells of itself.
type Worker struct {
	Host    string    `json:"host"`
	PID     int       `json:"pid"`
	Classes []string  `json:"classes"`
	Slots   int       `json:"slots"`             // how many tasks it runs at once
	Running []string  `json:"running,omitempty"` // their ids
	Refused int       `json:"refused,omitempty"` // offers that it could make nothing of
	Tools   []Offerer `json:"tools,omitempty"`
}

// Offerer is a tool that a worker has.
type Offerer struct {
	mcp.Tool
	Class string `json:"runnel/class"`
}

// Offer hands the task to a worker; the work calls it before it has written anything to the log. When it has returned nil the work must
// return, as for Detach: the Run follows the task then.
func (r *Run) Offer(ctx context.Context, o Offer) error {
	queue, ok := r.runner.o.State.(Queue)
	if !ok {
		return ErrNoQueue
	}
	return r.Detach(ctx, func() error { return queue.Offer(context.WithoutCancel(ctx), r.runner.o.Owner, r.id, o) })
}

// ErrNoQueue refuses what only a Queue can do.
var ErrNoQueue = errors.New("this state has no workers: keep tasks in one that has, such as --state nats://HOST")
