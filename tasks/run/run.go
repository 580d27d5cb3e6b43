package run

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"runnel/internal/signal"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tools/secrets"
)

// Run is a task that this process runs, from its start to its end. Runner.Make and Runner.Take return it;
// then its caller opens what reads its output (a Feed of package feed), and calls Begin. Two facts say where
// it stands, and decide what may happen to it: its phase and its place. Both are fields of its View, which is
// all that others see of a task, and change only while View.mu is held.
//
//	phase     what happens in it                                        ends with
//	starting  what reads its output opens; one with a handle is stored  Begin
//	running   the work runs                                             workReturned
//	draining  the deliveries write the last of the output (work.go)     claimEnd
//	ending    the terminal status is being stored and announced         announceEnd
//	ended     a client that waits gets its answer now
//
// A run that ends before its work returns goes from running to ending; its work returns later (worked). All
// ends of a task that runs here go through finish. The first one claims the end, even while the work runs,
// and the others wait for it:
//
//	do      when the run is drained: completed or failed, as the work says
//	Cancel  for a client of this process or of another one (runner.go)
//	expire  when its ttl is over
//	abort   when its output is lost, when another process has ended or taken it, and when the Runner is closed or gives
//	        up waiting for it
//
// Only Runner.Close waits for work that still runs after the end, with its context cancelled.
//
// The place changes when the work hands the task to another process (detach.go). The task ends there, and the
// Run follows it through the same phases (Run.follow); Cancel asks that process to end it.
type Run struct {
	View
	spec    Spec
	secrets *secrets.Set // nil = none

	taken  bool         // by Runner.Take: another process follows it (relay.go); set before the run begins
	worked signal.Latch // the work has returned, here or where the task runs, and the log is closed

	// changing is held from a change of the status or the variables until that change is stored and
	// announced, so that everyone sees the same order. It is taken before mu, and held across I/O.
	changing    sync.Mutex
	expiryTimer *time.Timer // nil without a handle; guarded by changing
	// Its client gets its id; otherwise it ends with this process; guarded by changing.
	known bool

	unstored error // the reason why the end is not stored, though the task has ended; guarded by runner.mu

	// Guarded by mu.
	settled        sync.Cond // on mu: the phase is no longer starting, or the place no longer handing
	kept           kept      // changes while changing is held, too
	errorCompletes bool      // an error result completes the task, too
	deliveries     deliveries
	asked          int                        // number of questions so far
	hideTimer      *time.Timer                // hides a run without a handle that may get one (history.go); nil for others
	earlier        map[string]json.RawMessage // answers to lasting questions from before Take, by key; set by it
	sampler        sampler
	matching       matching
}

// phase is how far a task has come. It only rises.
type phase int

const (
	starting phase = iota
	running
	draining
	ending
	ended
)

// place is where a task runs.
type place int

const (
	here    place = iota
	handing       // another process may be taking it: until that is known, it neither changes nor ends
	away          // in another process
	offered       // in a worker, as soon as one takes it; also away
)

// kept is what the state has of a run.
type kept int

const (
	nothing kept = iota
	hidden       // stored for people; clients do not find it (history.go)
	// Stored, and clients find it by its id: Spec.Handle, or promoted, or handed to another process.
	handle
)

// Question is a request for input from the client, made by a task's work. While one is open the task is
// input_required ("Input Required Status"); anyone with the task's id may see and answer it.
// Make one with Request and Message, and pass it to Run.Ask.
type Question struct {
	// Set by the asker.
	Request mcp.InputRequest
	Message string // the task's status message
	// Name, if not "", makes it a lasting question: any process can answer it, also while none runs the task,
	// and the process that continues the task finds the answer when it asks again. A name is asked once in a
	// task.
	Name string
	// It has been or will be sent to a client, so tasks/result does not send it again.
	Sent  bool
	Check func(content json.RawMessage) error // checks the content of an accepted answer; nil = no check

	run       *Run  // the run that asks; nil if another process runs the task
	view      *View // of the task
	key       string
	published bool                 // other processes can answer it (relay.go)
	answer    chan json.RawMessage // capacity 1: only the first answer counts
	refused   chan error           // capacity 1
	closed    context.Context
	close     context.CancelFunc
}

// Worked is closed when the work has returned. The task ends when its output has been delivered, too.
// Use it for what must stop with the work and not only with the task.
func (r *Run) Worked() <-chan struct{} { return r.worked.Done() }

// Arguments returns the arguments of the call.
func (r *Run) Arguments() json.RawMessage { return r.spec.Arguments }

// Outcome returns the outcome of a task that has ended. It is called after Ended is closed, when nothing
// changes it any more, so it takes no lock.
func (r *Run) Outcome() *tasks.Outcome { return r.task.Outcome }

// Report records the progress that the tool reports.
func (r *Run) Report(p tasks.Progress) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.task.Progress = p
}

// HasHandle reports whether the task is stored under its id, where clients can find it.
func (r *Run) HasHandle() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.kept == handle
}
