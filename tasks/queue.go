package tasks

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"runnel/rpc/mcp"
)

// Queue is a Store whose tasks can wait for a worker: a runnel, on any machine, that runs the tasks that
// others have stored.
//
// A waiting task has no keeper: the state ends it when it has waited too long, and a cancellation ends it at
// once. A worker that takes a task (Take) is its keeper, like any other. If the worker dies, the task waits
// again as long as its offer has retries left, and its output continues where it was.
type Queue interface {
	Shared
	// Offer makes a task that this process has put or taken, but not begun, wait for a worker. This process
	// is no longer its keeper.
	Offer(ctx context.Context, id string, o Offer) error
	// PutOffered is Put of a new task, and Offer, as one write: the task waits for a worker as soon as it is
	// stored.
	PutOffered(ctx context.Context, t Task, o Offer) error
	// Announce makes a worker known to the owner's runnels. They soon forget it unless it is announced again
	// and again; with a nil w they forget it immediately.
	Announce(ctx context.Context, w *Worker) error
	// Fleet returns the workers that the owner's runnels can use, and which tasks wait, by class.
	Fleet(ctx context.Context) (workers []Worker, waiting map[string]Waiting, err error)
	// Order asks the owner's workers for something, and Withdraw takes that back. A drain is forgotten when
	// every worker has had time to read it, a pause counts until it is withdrawn.
	Order(ctx context.Context, o Order) error
	Withdraw(ctx context.Context, o Order) error
	Orders(ctx context.Context) ([]Order, error)
	// Stored returns where the tasks are stored.
	Stored(ctx context.Context) (Storage, error)
}

// Queues is a State whose stores are Queues.
type Queues interface {
	State
	// Next waits for a task that waits for a worker of one of the classes, and returns it; the owners take
	// turns, and an owner's tasks share its turns by their Priority. Only Take decides who runs the task:
	// others may have ended it by then.
	Next(ctx context.Context, owners, classes []string) (*Offered, error)
	// Owners returns the owners that have tasks there, or workers, sorted.
	Owners(ctx context.Context) ([]string, error)
}

// Storage is what an owner's tasks take of the servers.
type Storage struct {
	Bytes, Limit int64 // taken, and how many they may take; 0 = no limit
	Replicas     int   // how many servers should have them
	Current      int   // how many have everything
}

// Waiting is what waits for the workers of one class.
type Waiting struct {
	Tasks int
	Since time.Time // when the one that waits longest was offered
}

// Offer is what a worker gets to know about a task, besides the name of its tool. It holds no path and no
// environment: the worker uses its own.
type Offer struct {
	Class     string          // of the workers that may take it
	Priority  Priority        // among the owner's tasks that wait
	Arguments json.RawMessage // of the call
	Confirmed bool            // the user has confirmed it, where it was called
	Polls     bool            // get_task_result is listed for the client that made the call
	Client    FarClient       // that made the call
	Timeout   time.Duration   // how long it may wait for a worker each time
	Attached  bool            // it ends with this process, unless its client gets the task's id (HandedNote)
	Retries   int             // how many times it waits again after losing its worker
}

// Priority says which of an owner's waiting tasks a worker takes first. While tasks of all three wait, of ten
// that a worker takes from an owner six are high, three are normal and one is low. A turn for which no task
// waits goes to the highest priority of which one does. The empty one, and unknown ones, are normal.
type Priority string

// These are the values of Priority.
const (
	PriorityHigh   Priority = "high"
	PriorityNormal Priority = "normal"
	PriorityLow    Priority = "low"
)

// FarClient is what a worker knows about the client that made a call. It decides which questions the worker
// can ask that client, and whether the worker publishes progress.
type FarClient struct {
	// Elicitation, sampling and roots, as far as the client has them.
	Asks     mcp.ClientCapabilities `json:"asks,omitzero"`
	Progress bool                   `json:"progress,omitempty"` // the client wants to know the progress

	// The client shows its model so many bytes of a result and of an error; 0 = the default.
	MaxResult int `json:"maxResult,omitempty"`
	MaxError  int `json:"maxError,omitempty"`
}

// Offered is a task that waits for a worker.
// Queues.Next returns one.
type Offered struct {
	Task  Task      // its id, its owner, its tool
	Since time.Time // when it was last offered
	Offer

	// Call one of these as soon as it is known what becomes of the offer.
	Done   func() // it is taken, or no worker can take it any more
	Return func() // another worker may take it, or this one, later
}

// Order is what people ask of workers.
type Order struct {
	What string `json:"what"` // OrderDrain or OrderPause
	Name string `json:"name"` // of the workers, or of the class
	ID   string `json:"id"`   // set by Queue.Order: a worker obeys no drain that was there before it
}

// Values of Order.What.
const (
	OrderDrain = "drain" // the workers of this name take no more calls, and end when those that run have ended
	OrderPause = "pause" // no worker takes calls of this class
)

// Worker is what a worker announces about itself.
type Worker struct {
	Name    string   `json:"name,omitempty"`
	Host    string   `json:"host"`
	PID     int      `json:"pid"`
	Labels  []string `json:"labels,omitempty"` // KEY=VALUE, for people
	Classes []string `json:"classes"`
	Slots   int      `json:"slots"`            // how many tasks it runs at once
	Paused  []string `json:"paused,omitempty"` // classes of which it takes no tasks
	// The orders of another of its owners count, not those of the one that asks.
	Foreign bool      `json:"foreign,omitempty"`
	Running []string  `json:"running,omitempty"` // their ids, "" for those of other owners
	Tasks   []Taken   `json:"tasks,omitempty"`   // those of the owner that asks
	Refused int       `json:"refused,omitempty"` // offers that it could not use
	Tools   []Offerer `json:"tools,omitempty"`
}

// Taken is a task that a worker runs.
type Taken struct {
	ID    string    `json:"id"`
	Tool  string    `json:"tool"`
	Since time.Time `json:"since"` // when it was offered
}

// Offerer is a tool that a worker has.
type Offerer struct {
	mcp.Tool
	Class    string   `json:"runnel/class"`
	Priority Priority `json:"runnel/priority,omitempty"` // of its calls
}

// ErrNoQueue refuses to offer a task where the Store is not a Queue.
var ErrNoQueue = errors.New("this state has no workers: keep tasks in one that has, such as --state " +
	"nats://HOST")
