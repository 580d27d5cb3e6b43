package tasks

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"runnel/partials"
	"runnel/rpc"
	"runnel/rpc/mcp"
)

// Run is a task from its start to its end. Three events tell how far it is; of one that is cut off the last may come first:
//
//	worked   Spec.Work has returned, and the log is closed
//	drained  the deliveries have written the last of the output (deliver.go)
//	ended    the terminal status is stored, and told
//
// The end has one door, finish. Who comes first ends the task, whatever its work does just then, and the others wait for ended:
//
//	Do      when it is drained: completed or failed, as the work says
//	Cancel  for a client of this process or of another one (heed.go)
//	expire  when its ttl is over
//	cutOff  when its output is lost, and when the Runner is closed or gives it up
//
// Work that goes on after the end, whose context has been cancelled, is waited for by Runner.Close only.
//
// A task that another process runs (detach.go) ends there. Its Run follows it (follow.go) through the same events, and to finish it
// is to ask that process to cancel it.
type Run struct {
	// Set by Start, New, Take or Follow.
	id       string
	runner   *Runner
	spec     Spec
	log      *partials.Log
	segments *partials.Segments
	ctx      context.Context
	cancel   context.CancelCauseFunc

	detached rpc.Latch // another process runs the task

	worked, drained, ended rpc.Latch

	changes rpc.Broadcast // of the status and the questions

	// door lets one change of the status or the variables through at a time, with its storing and its telling, so that they
	// are in the same order for everybody. It is taken before mu, and held across I/O.
	door   sync.Mutex
	hidden bool        // the store keeps the output of a run without a handle; guarded by door
	expiry *alarm      // nil without a handle; guarded by door
	hider  *time.Timer // of a run without a handle that may get one; nil for others

	mu             sync.Mutex
	task           Task
	shown          string           // the last line of output as somebody was last shown it
	handle         bool             // Spec.Handle, or promoted
	ending         *partials.Ending // what the result has beyond the output; nil until Rest says so, or the work has returned
	errorCompletes bool             // an error result completes the task, too
	finishing      bool             // somebody is moving the task to a terminal status, or has
	silence        func()           // silences the deliveries: nothing of the task is written after it returns

	handing    chan struct{} // closed when it is known whether another process has taken the task; nil while none is asked to
	owed       int           // deliveries that are still to be started
	delivering int           // deliveries that have not written the last of the output
	questions  questions

	follower  bool // made by Runner.Follow: the task was never run here
	following int  // how many who have called Follow have not released it; guarded by runner.mu
}

// Question is something that a task's work wants to know from the client. While one is open the task is
// input_required ("Input Required Status"); whoever has the task's id may see and answer it.
type Question struct {
	// Set by who asks.
	Request mcp.InputRequest
	Message string                              // what the task's status says
	Sent    bool                                // a client has been sent it, or will be: it is left out of what tasks/result asks
	Check   func(content json.RawMessage) error // what is wrong with the content of an accepted answer; nil = nothing ever is

	run    *Run
	number int
	key    string
	answer chan json.RawMessage // capacity 1: only the first answer counts
	closed rpc.Latch
}

// questions are a run's, guarded by its mu.
type questions struct {
	last  int // "Each request key in inputRequests MUST be unique over the lifetime of a single task" (ext-tasks)
	open  map[string]mcp.InputRequest
	byKey map[string]*Question
	asked chan struct{} // capacity 1: something was asked; nil until somebody listens or asks
}

// ID is the task's id: a random UUID, the secret that gives access to the task.
func (r *Run) ID() string { return r.id }

// Log is what the work writes to.
func (r *Run) Log() *partials.Log { return r.log }

// Segments numbers the output for SEP-1905.
func (r *Run) Segments() *partials.Segments { return r.segments }

// Context ends when the work shall end.
func (r *Run) Context() context.Context { return r.ctx }

// Worked is closed when the work has returned; the task ends when its output has been delivered, too.
func (r *Run) Worked() <-chan struct{} { return r.worked.Done() }

// Detached is closed when another process runs the task.
func (r *Run) Detached() <-chan struct{} { return r.detached.Done() }

// Ended is closed when the task has its terminal status and its output has been delivered.
func (r *Run) Ended() <-chan struct{} { return r.ended.Done() }

// Watch tells of changes of the task: changed receives after one or more of them. stop ends it.
func (r *Run) Watch() (changed <-chan struct{}, stop func()) { return r.changes.Watch() }

// Task is the task as it is now.
func (r *Run) Task() Task {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.task
}

// HasHandle reports whether a client knows the task's id.
func (r *Run) HasHandle() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.handle
}

// Variables are the task's variables, an encoded object; nil if there are none.
func (r *Run) Variables() json.RawMessage {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.task.Variables
}
