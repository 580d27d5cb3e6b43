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

// Run is a task that this process runs, from its start to its end. Three events mark its progress; if the run is cut off, the last may come
// first:
//
//	worked   Spec.Work has returned, and the log is closed
//	drained  the deliveries have written the last of the output (deliver.go)
//	ended    the terminal status is stored and announced
//
// All ends go through finish. The first one ends the task, whatever its work is doing, and the others wait for ended:
//
//	do      when the run is drained: completed or failed, as the work says
//	Cancel  for a client of this process or of another one (requests.go)
//	expire  when its ttl is over
//	abort  when its output is lost, and when the Runner is closed or gives it up
//
// Only Runner.Close waits for work that goes on after the end, with its context cancelled.
//
// A task that is handed to another process (detach.go) ends there. The Run follows it (follow.go) through the same events, and its finish
// asks that process to cancel the task.
type Run struct {
	View
	spec    Spec
	secrets *secrets.Set // nil = none

	taken           bool // from another process, which follows it (publish.go); set before the run begins
	offered         bool // to workers; owned by do
	worked, drained rpc.Latch
	begun           rpc.Latch // Client.Begin has returned, or is never called

	// handover is held while it is unknown whether another process has taken the task. It is taken before door.
	handover sync.Mutex
	// changing admits one change of the status or the variables at a time and is held until that change is stored and announced, so that
	// everybody sees the same order. It is taken before mu, and held across I/O.
	changing    sync.Mutex
	hidden      bool        // the state keeps the output of a run without a handle; guarded by door
	expiryTimer *time.Timer // nil without a handle; guarded by door
	hideTimer   *time.Timer // hides a run without a handle that may get one; nil for others

	// Guarded by runner.mu.
	unstored     error // the reason why its end is not stored, though it has ended
	endRequested bool  // it is being ended because others want it

	// Guarded by mu.
	handle         bool          // Spec.Handle, or promoted
	errorCompletes bool          // an error result completes the task, too
	finishing      bool          // somebody is moving the task to a terminal status, or has done so
	expected       int           // deliveries still to be started
	delivering     int           // deliveries that have not yet written the last of the output
	asked          int           // questions so far
	progressed     chan struct{} // capacity 1: there is progress to be stored; nil until there is
	sampleTimer    *time.Timer   // looks how much the output has grown (times.go); nil until the run begins
	noted          struct {      // in notes
		progress Progress
		until    time.Duration // the age of the task up to which times are noted
		at       time.Time
	}
}

// Question is something that a task's work asks the client. While one is open the task is input_required ("Input Required Status"); anyone
// with the task's id may see and answer it.
type Question struct {
	// Set by the asker.
	Request mcp.InputRequest
	Message string                              // the task's status message
	Sent    bool                                // a client has been or will be sent it, so tasks/result does not put it again
	Check   func(content json.RawMessage) error // checks the content of an accepted answer; nil = anything is fine

	run     *Run  // the run that asks; nil if another process runs the task
	view    *View // of the task
	key     string
	answer  chan json.RawMessage // capacity 1: only the first answer counts
	refused chan error           // capacity 1
	closed  context.Context
	close   context.CancelFunc
}

// Worked is closed when the work has returned. The task ends once its output has been delivered, too.
func (r *Run) Worked() <-chan struct{} { return r.worked.Done() }

// Arguments returns the arguments of the call.
func (r *Run) Arguments() json.RawMessage { return r.spec.Arguments }

// Report notes the progress that the tool reports.
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
