package tasks

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"runnel/partials"
	"runnel/rpc"
	"runnel/rpc/mcp"
)

var (
	errCancelled = errors.New("cancelled")
	errExpired   = errors.New("expired")
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
	ctx      rpc.Context

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

// ID is the task's id: a random UUID, the secret that gives access to the task.
func (r *Run) ID() string { return r.id }

// Log is what the work writes to.
func (r *Run) Log() *partials.Log { return r.log }

// Context ends when the work shall end.
func (r *Run) Context() context.Context { return &r.ctx }

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

// Worked is closed when the work has returned; the task ends when its output has been delivered, too.
func (r *Run) Worked() <-chan struct{} { return r.worked.Done() }

// HasHandle reports whether a client knows the task's id.
func (r *Run) HasHandle() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.handle
}

// ErrEnding refuses to cancel a task whose work has ended, but whose end is not stored yet.
var ErrEnding = errors.New("the task has ended, but its end waits to be stored: another process holds the state")

// ErrEnded refuses what only a task that has not ended can do.
var ErrEnded = errors.New("the task has ended")

// Promote gives a handle to a run, if it has none. It fails like Start, or with ErrEnded.
func (r *Run) Promote(ctx context.Context) error { return r.promote(ctx, r.runner.admit) }

// Keep gives a handle to a run whose work is done, so that its output can be read afterwards. It fails if the task cannot be
// stored, and not at a limit: those are for work that goes on.
func (r *Run) Keep(ctx context.Context) error {
	return r.promote(ctx, func(ctx context.Context, run *Run) error {
		r.mu.Lock()
		r.task.Ending = true
		r.mu.Unlock()
		r.runner.mu.Lock()
		return r.runner.enter(ctx, run)
	})
}

func (r *Run) promote(ctx context.Context, admit func(context.Context, *Run) error) error {
	r.door.Lock()
	defer r.door.Unlock()
	r.mu.Lock()
	finishing, handle := r.finishing, r.handle
	r.mu.Unlock()
	if finishing {
		return ErrEnded
	}
	if handle {
		return nil
	}
	// An end that begins from here on waits for the door, and finds the handle.
	if err := admit(ctx, r); err != nil {
		return err
	}
	r.setHidden(false)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.handle = true
	return nil
}

// move moves the task between working and input_required, and tells of it. The door is held.
func (r *Run) move(status mcp.TaskStatus, message string) error {
	r.mu.Lock()
	if r.finishing {
		r.mu.Unlock()
		return ErrEnded
	}
	if err := checkMove(r.task.Status, status); err != nil {
		r.mu.Unlock()
		return err
	}
	r.task.Status, r.task.StatusMessage, r.task.UpdatedAt = status, Clip(message), time.Now()
	t, handle := r.task, r.handle
	r.mu.Unlock()
	defer r.changes.Send()
	if !handle {
		return nil
	}
	if r.spec.Status != nil {
		r.spec.Status(t.wire(r.runner.o.PollInterval))
	}
	return r.runner.o.State.Put(&r.ctx, t)
}

// endsWithin waits for an end that is being stored. It reports false if that takes too long.
func (r *Run) endsWithin(ctx context.Context, limit time.Duration) bool {
	r.mu.Lock()
	finishing := r.finishing
	r.mu.Unlock()
	if !finishing {
		return true
	}
	ctx, stop := context.WithTimeout(ctx, limit)
	defer stop()
	select {
	case <-r.ended.Done():
		return true
	case <-ctx.Done():
		return false
	}
}

// Cancel ends the run as cancelled. It reports false if the task had ended already.
func (r *Run) Cancel(message string) bool {
	return r.finish(errCancelled, mcp.TaskCancelled, message, &Outcome{Result: mcp.ErrorResult("The task was cancelled.")})
}

const expiredMessage = "the task's ttl is over"

// expire stops the work of a task whose ttl is over.
func (r *Run) expire() {
	r.finish(errExpired, mcp.TaskFailed, expiredMessage, &Outcome{Result: mcp.ErrorResult("The task's ttl is over.")})
}

// cutOff ends the run as failed, whatever its work may still come to.
func (r *Run) cutOff(why error) {
	r.finish(errClosed, mcp.TaskFailed, why.Error(), &Outcome{Result: mcp.ErrorResult(why.Error())})
}

// cut is why the task ends as failed whatever its work has come to, nil if there is no such reason.
func (r *Run) cut() error {
	if err := r.log.Failed(); err != nil {
		return err
	}
	if r.runner.ctx.Err() != nil {
		return errClosed
	}
	return nil
}

// Do does the work of a run that [Runner.New] has made, and returns when the run has ended.
func (r *Run) Do() {
	defer r.runner.done(r)
	result, message, err := r.work()
	if r.detached.IsSet() { // the work was to hand the task over
		r.follow()
		return
	}
	var wire *rpc.Error
	if err != nil {
		wire = r.wireError(err)
	}
	if why := r.cut(); why != nil { // what the work says then is not how the task ends
		result, wire = mcp.ErrorResult(why.Error()), nil
		r.Rest(result.Content)
	}
	r.setEnding(result, wire)
	r.awaitDelivery()
	switch why := r.cut(); {
	case why != nil:
		r.cutOff(why)
	case wire != nil:
		r.finish(nil, mcp.TaskFailed, wire.Message, &Outcome{Err: wire})
	case result.IsError && !r.completes():
		// "when the tool result has isError set to true, the task should reach failed status" (tasks, "Task Execution Errors")
		r.finish(nil, mcp.TaskFailed, message, &Outcome{Result: result})
	default:
		r.finish(nil, mcp.TaskCompleted, message, &Outcome{Result: result})
	}
}

// work calls the tool and makes an error of its panic.
func (r *Run) work() (result *mcp.CallToolResult, message string, err error) {
	defer func() {
		if p := recover(); p != nil {
			r.runner.o.Log.Error().Str("taskId", r.ID()).Str("owner", r.runner.o.Owner).Str("tool", r.spec.Tool).
				Str("panic", fmt.Sprint(p)).Bytes("stack", debug.Stack()).Msg("tool panicked")
			err = rpc.Errorf(mcp.CodeInternalError, "internal error")
		}
	}()
	result, message, err = r.spec.Work(&r.ctx, r)
	if err == nil && result == nil {
		result = &mcp.CallToolResult{}
	}
	return result, message, err
}

// wireError is the JSON-RPC error that a work's error is; what is none of those stays in the log.
func (r *Run) wireError(err error) *rpc.Error {
	wire, ok := errors.AsType[*rpc.Error](err)
	if !ok {
		r.runner.o.Log.Error().Err(err).Str("taskId", r.id).Str("owner", r.runner.o.Owner).Str("tool", r.spec.Tool).Msg("tool failed")
		wire = rpc.Errorf(mcp.CodeInternalError, "internal error")
	}
	return wire
}

// finish moves the task to a terminal status. cause is why it is cut off, nil at its own end. It reports false, after the end,
// if somebody else was first.
func (r *Run) finish(cause error, status mcp.TaskStatus, message string, outcome *Outcome) bool {
	r.lockAfterHanding()
	if r.finishing {
		r.mu.Unlock()
		<-r.ended.Done()
		return false
	}
	if r.detached.IsSet() {
		r.mu.Unlock()
		return r.finishAway(cause)
	}
	if err := checkMove(r.task.Status, status); err != nil {
		panic("internal error: " + err.Error())
	}
	r.finishing = true
	if outcome.Result != nil {
		// For work that is still under way: who asks for segments from now on is told that this is the end.
		ending := partials.Ending{Rest: outcome.Result.Content, IsError: outcome.Result.IsError}
		if r.segments.Finish(ending); r.ending == nil {
			r.ending = &ending
		}
	}
	r.mu.Unlock()

	if r.hider != nil {
		r.hider.Stop()
	}
	if cause != errCancelled { // "Receivers SHOULD stop emitting partial notifications as soon as a task is marked as cancelled" (SEP-2679)
		r.ctx.Cancel(cause)
		r.deliverRest()
	}
	r.stop(cause)
	if cause != nil && r.HasHandle() {
		outcome.Result.Content = append(Remains(context.Background(), r.log), outcome.Result.Content...)
	}
	r.door.Lock() // not before: who holds it may wait for what stop ends
	defer r.door.Unlock()
	r.mu.Lock()
	t, handle := r.task, r.handle
	r.mu.Unlock()
	t.Status, t.StatusMessage, t.Outcome, t.UpdatedAt = status, Clip(message), outcome, time.Now()
	if handle {
		// The outcome is stored before the terminal status can be seen.
		t = r.runner.settle(t)
	} else if r.hidden {
		r.unspill(&t)
	}
	r.conclude(t, handle)
	return true
}

// stop ends the deliveries, the work's context and the log. finishing is set.
func (r *Run) stop(cause error) {
	r.mu.Lock()
	silence := r.silence
	r.mu.Unlock()
	if silence != nil {
		// "Receivers MUST NOT send notifications/tasks/partial after the task reaches a terminal status" (SEP-2679, 1.3.2)
		silence()
	}
	r.ctx.Cancel(cause)
	r.log.Close()
}

// conclude makes t the task's last state, and tells of it. The door is held.
func (r *Run) conclude(t Task, handle bool) {
	r.mu.Lock()
	r.task = t
	r.mu.Unlock()
	if r.spec.Status != nil {
		r.spec.Status(t.wire(r.runner.o.PollInterval))
	}
	if handle {
		r.runner.forget(r)
		if !r.follower { // else that is told where it runs
			r.runner.tellEnded(&t)
		}
	}
	r.ended.Set()
	r.changes.Send()
}
