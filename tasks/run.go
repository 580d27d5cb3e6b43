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

// Run is a task that this process runs, from its start to its end. Three events mark its progress; if the run
// is aborted, the last may come first:
//
//	worked   Spec.Work has returned, and the log is closed
//	drained  the deliveries have written the last of the output (deliver.go)
//	ended    the terminal status is stored and announced
//
// All ends go through finish. The first one ends the task, even while its work runs, and the others wait for
// ended:
//
//	do      when the run is drained: completed or failed, as the work says
//	Cancel  for a client of this process or of another one (requests.go)
//	expire  when its ttl is over
//	abort   when its output is lost, and when the Runner is closed or gives up waiting for it
//
// Only Runner.Close waits for work that still runs after the end, with its context cancelled.
//
// A task that is handed to another process (detach.go) ends there. The Run follows it (follow.go) through the
// same events, and finish asks that process to cancel the task.
// Runner.Start, or Runner.Take, returns one, and passes it to the work.
type Run struct {
	View
	spec    Spec
	secrets *secrets.Set // nil = none

	taken           bool // the task is that of another process, which follows it (publish.go); set before the run begins
	offered         bool // the task was offered to workers; owned by do
	worked, drained rpc.Latch
	begun           rpc.Latch // Client.Begin has returned, or is never called

	// handover is held while it is unknown whether another process has taken the task. It is taken before
	// changing. It is a lock of its own because finish must not wait for changing before it has ended what
	// the holder of that waits for.
	handover sync.Mutex
	// changing is held from a change of the status or the variables until that change is stored and
	// announced, so that everyone sees the same order. It is taken before mu, and held across I/O.
	changing    sync.Mutex
	hidden      bool        // the state keeps the output of a run without a handle; guarded by changing
	expiryTimer *time.Timer // nil without a handle; guarded by changing

	// Guarded by runner.mu.
	unstored     error // the reason why the end is not stored, though the task has ended
	endRequested bool  // it is being ended at the request of another process

	// Guarded by mu.
	handle         bool          // Spec.Handle, or promoted
	errorCompletes bool          // an error result completes the task, too
	finishing      bool          // the task is being moved to a terminal status, or has one (claimEnd)
	expected       int           // deliveries still to be started
	delivering     int           // deliveries that have not yet written the last of the output
	asked          int           // number of questions so far
	pace           time.Duration // of samples and of notes of progress (times.go)
	sampleTimer    *time.Timer   // looks how much the output has grown (times.go); nil until the run begins
	hideTimer      *time.Timer   // hides a run without a handle that may get one (spill.go); nil for others
	noting         chan struct{} // closed when the last sample's notes are stored, or have failed; nil before the first sample
	noted          struct {      // what the last notes say (times.go)
		progress Progress
		until    time.Duration // the age of the task up to which times are noted
		at       time.Time     // when progress was last noted
	}
}

// Question is a request for input from the client, made by a task's work. While one is open the task is
// input_required ("Input Required Status"); anyone with the task's id may see and answer it.
// Make one with Request and Message, and pass it to Run.Ask.
type Question struct {
	// Set by the asker.
	Request mcp.InputRequest
	Message string                              // the task's status message
	Sent    bool                                // it has been or will be sent to a client, so tasks/result does not send it again
	Check   func(content json.RawMessage) error // checks the content of an accepted answer; nil = no check

	run     *Run  // the run that asks; nil if another process runs the task
	view    *View // of the task
	key     string
	answer  chan json.RawMessage // capacity 1: only the first answer counts
	refused chan error           // capacity 1
	closed  context.Context
	close   context.CancelFunc
}

// Worked is closed when the work has returned. The task ends when its output has been delivered, too.
// Use it for what must stop with the work and not only with the task.
func (r *Run) Worked() <-chan struct{} { return r.worked.Done() }

// Arguments returns the arguments of the call.
func (r *Run) Arguments() json.RawMessage { return r.spec.Arguments }

// Report records the progress that the tool reports.
func (r *Run) Report(p Progress) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.task.Progress = p
}

// HasHandle reports whether a client knows the task's id.
// Use it to decide whether the task may be named to the client.
func (r *Run) HasHandle() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.handle
}
