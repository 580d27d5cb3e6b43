package tasks

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tools/secrets"
)

// Run is a task that this process runs, from its start to its end. Three events tell how far it is; of one
// that is cut off the last may come first:
//
//	worked   Spec.Work has returned, and the log is closed
//	drained  the deliveries have written the last of the output (deliver.go)
//	ended    the terminal status is stored, and told
//
// The end has one door, finish. The first to come ends the task, whatever its work does just then, and the others wait for ended:
//
//	do      when it is drained: completed or failed, as the work says
//	Cancel  for a client of this process or of another one (heed.go)
//	expire  when its ttl is over
//	cutOff  when its output is lost, and when the Runner is closed or gives it up
//
// Work that goes on after the end, whose context has been cancelled, is waited for by Runner.Close only.
//
// A task that it hands to another process (detach.go) ends there. The Run follows it (follow.go) through the same events, and to finish
// it is to ask that process to cancel it.
type Run struct {
	View
	spec    Spec
	secrets *secrets.Set // nil = none

	worked, drained rpc.Latch
	begun           rpc.Latch // Client.Begin has returned, or is never called

	// handing is held while it is not known whether another process has taken the task. It is taken before door.
	handing sync.Mutex
	// door lets one change of the status or the variables through at a time, with its storing and its telling, so that they
	// are in the same order for everybody. It is taken before mu, and held across I/O.
	door   sync.Mutex
	hidden bool        // the state keeps the output of a run without a handle; guarded by door
	expiry *time.Timer // nil without a handle; guarded by door
	hider  *time.Timer // hides a run without a handle that may get one; nil for others

	// Guarded by runner.mu.
	unstored error // why its end is not stored, though it has ended
	heeded   bool  // it is being ended because others want it

	// Guarded by mu.
	handle         bool          // Spec.Handle, or promoted
	errorCompletes bool          // an error result completes the task, too
	finishing      bool          // somebody is moving the task to a terminal status, or has
	owed           int           // deliveries that are still to be started
	delivering     int           // deliveries that have not written the last of the output
	asked          int           // questions so far
	taken          bool          // from another process, which follows it (notes.go)
	moved          chan struct{} // capacity 1: there is progress to be told; nil until there is
}

// Question is something that a task's work wants to know from the client. While one is open the task is
// input_required ("Input Required Status"); whoever has the task's id may see and answer it.
type Question struct {
	// Set by whoever asks.
	Request mcp.InputRequest
	Message string                              // the task's status message
	Sent    bool                                // a client has been sent it, or will be: it is left out of what tasks/result asks
	Check   func(content json.RawMessage) error // finds what is wrong with the content of an accepted answer; nil = any will do

	run     *Run  // that asks; nil if another process runs the task
	view    *View // of the task
	key     string
	answer  chan json.RawMessage // capacity 1: only the first answer counts
	refused chan error           // capacity 1
	closed  context.Context
	close   context.CancelFunc
}

// Worked is closed when the work has returned; the task ends when its output has been delivered, too.
func (r *Run) Worked() <-chan struct{} { return r.worked.Done() }

// Arguments are those of the call.
func (r *Run) Arguments() json.RawMessage { return r.spec.Arguments }

// Report notes how far the tool says that it has come.
func (r *Run) Report(p Progress) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.task.Progress = p
}

// HasHandle reports whether a client knows the task's id.
func (r *Run) HasHandle() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.handle
}
