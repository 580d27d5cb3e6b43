package run

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"runnel/internal/signal"
	"runnel/partials"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tasks"
)

// View is a task as this process sees it: one that it runs (Run), or one that another process runs and this
// one follows (follow.go). Runner.Follow returns one; every Run has one.
type View struct {
	id       string
	runner   *Runner
	log      *partials.Log
	segments *partials.Segments
	ctx      context.Context
	cancel   context.CancelCauseFunc
	changes  signal.Broadcast // of the status and the questions
	ready    signal.Latch     // the tool is ready (matches.go)

	ended    signal.Latch // the phase is ended
	detached signal.Latch // the place is away or offered, and stays so

	mu sync.Mutex
	// phase of a View without a Run is running, and ended when its task has ended or is not followed any
	// more.
	phase phase
	place place
	task  tasks.Task
	shown string      // the last line of output, as it was last shown
	open  []*Question // the questions that are open, oldest first

	input atomic.Pointer[inputs] // of a Run that takes some (input.go); set once

	// Keys of questions that this process has answered for a task elsewhere (notes.go).
	answered map[string]bool

	// answering is held by an answer that shows the task, from when it reads the task until it is queued: the
	// end is announced after it.
	answering sync.RWMutex

	following int // calls of Follow that have not been released; guarded by runner.mu
}

// ID returns the task's id: a UUID that gives access to the task, so it must stay secret.
func (v *View) ID() string { return v.id }

// Log returns the log that the work writes to.
func (v *View) Log() *partials.Log { return v.log }

// Segments returns the segments that number the output for SEP-1905.
func (v *View) Segments() *partials.Segments { return v.segments }

// Context returns the context of the work, which ends when the work should.
func (v *View) Context() context.Context { return v.ctx }

// Ended is closed when the task has its terminal status and its output has been delivered.
func (v *View) Ended() <-chan struct{} { return v.ended.Done() }

// Watch announces changes of the status and the questions: changed receives a value after one or more of
// them. The caller must call stop.
func (v *View) Watch() (changed <-chan struct{}, stop func()) { return v.changes.Watch() }

// Task returns the task as it is now.
func (v *View) Task() tasks.Task {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.task
}

// setEnd sets the task's last state, when the answers that show an earlier one are queued, and the phase.
func (v *View) setEnd(t tasks.Task, p phase) {
	v.answering.Lock()
	defer v.answering.Unlock()
	v.mu.Lock()
	defer v.mu.Unlock()
	v.task = t
	v.setPhase(p)
}

// reach sets the phase.
func (v *View) reach(p phase) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.setPhase(p)
}

// setPhase is reach. mu is held.
func (v *View) setPhase(p phase) {
	if v.phase = p; p == ended {
		v.ended.Set()
	}
}

// past reports whether the task has come as far as a phase.
func (v *View) past(p phase) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.phase >= p
}

// Questions returns the open questions by their keys.
func (v *View) Questions() map[string]mcp.InputRequest {
	v.mu.Lock()
	defer v.mu.Unlock()
	open := map[string]mcp.InputRequest{}
	for _, q := range v.open {
		open[q.key] = q.Request
	}
	return open
}

// FirstForm returns the open question with a form that was asked first, nil if there is none.
func (v *View) FirstForm() *Question {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, q := range v.open {
		if _, is := q.form(); is {
			return q
		}
	}
	return nil
}

// Detached is closed when another process runs the task.
// Use it for what only the process that runs the task can do.
func (v *View) Detached() <-chan struct{} { return v.detached.Done() }

// away reports whether another process runs the task.
func (v *View) away() bool { return v.detached.IsSet() }

// Wire returns a task as a status notification of the handshake era shows it.
func (r *Runner) Wire(t *tasks.Task) mcp.Task { return t.Wire(r.o.PollInterval) }

// Handle returns the answer to the task-augmented request of the handshake era that started the run.
func (r *Run) Handle() mcp.CreateTaskResult {
	// A handle always shows the status working, even if that has changed since ("Task Status Lifecycle":
	// tasks begin in the working status); later statuses follow it.
	t := r.Task()
	t.Status = mcp.TaskWorking
	t.StatusMessage = ""
	t.UpdatedAt = t.CreatedAt
	return mcp.CreateTaskResult{
		Task: t.Wire(r.runner.o.PollInterval),
		Meta: map[string]any{mcp.MetaModelResponse: fmt.Sprintf("%s runs as task %s. Its result comes "+
			"when it is done.", t.Tool, t.ID)},
	}
}

// BeforeTheEnd wraps an answer that shows a task: if it shows the task before its end, it is queued before
// the notification of that end. An answer that may be large, and so wait for the client, does not delay the
// end; nor does one in a batch, which may wait for other answers that wait for the end.
func (r *Runner) BeforeTheEnd(c *rpc.Caller, id string, show func() (any, error)) (any, error) {
	v := r.view(id)
	if v == nil || c.InBatch() {
		return show()
	}
	v.answering.RLock()
	held := false
	defer func() {
		if !held {
			v.answering.RUnlock()
		}
	}()
	shown, err := show()
	if err != nil || tasks.OwnVariables(v.Task().Variables) != nil || len(v.Questions()) > 0 {
		return shown, err
	}
	held = true
	return rpc.After{Result: shown, Do: v.answering.RUnlock, Drop: v.answering.RUnlock}, nil
}

// Detailed returns a task of the owner as clients of the tasks extension see it, with the members that its
// status adds. Use it where only the id is known, and View.Detailed otherwise.
func (r *Runner) Detailed(ctx context.Context, id string) (mcp.DetailedTask, error) {
	if v := r.view(id); v != nil {
		return v.Detailed(), nil
	}
	t, err := r.Get(ctx, id)
	if err != nil {
		return mcp.DetailedTask{}, err
	}
	open := map[string]mcp.InputRequest{}
	for _, q := range readNotes(t.Variables, t.Attempt).questions {
		open[q.key] = q.Request
	}
	return r.detailed(&t, open), nil
}

// Detailed returns the task as it is now, with the members that its status adds.
func (v *View) Detailed() mcp.DetailedTask {
	t := v.live()
	return v.runner.detailed(&t, v.Questions())
}

func (r *Runner) detailed(t *tasks.Task, open map[string]mcp.InputRequest) mcp.DetailedTask {
	w := t.Wire(r.o.PollInterval)
	if t.Status == mcp.TaskInputRequired && len(open) == 0 {
		// The questions were just answered, or only the process that runs the task knows them.
		w.Status = mcp.TaskWorking
	}
	d := mcp.DetailedTask{
		TaskID: w.TaskID, Status: w.Status, StatusMessage: w.StatusMessage,
		CreatedAt: w.CreatedAt, LastUpdatedAt: w.LastUpdatedAt, TTLMs: w.TTL, PollIntervalMs: w.PollInterval,
	}
	beside := 0
	switch {
	case t.Status == mcp.TaskInputRequired:
		d.InputRequests = open // left out if they are empty
		if tasks.Answered(t.Variables) {
			d.StatusMessage = tasks.WaitsFor(t)
		} else if tasks.Resumes(t.Variables) != "" {
			d.WaitsFor = tasks.WaitsFor(t)
		}
	case t.Status == mcp.TaskCancelled || !t.Status.Terminal():
	case t.Outcome.Err != nil:
		d.Error = t.Outcome.Err
	default:
		// "Errors within the context of a protocol method result MUST use the completed status"
		d.Status = mcp.TaskCompleted
		d.Result = &mcp.CompleteResult{ResultType: mcp.ResultComplete, CallToolResult: *t.Outcome.Result}
		beside = t.Outcome.Result.Size()
	}
	d.Meta = tasks.WithVariables(nil, t, beside)
	return d
}

// Created returns the answer to a call of the stateless era that has become a task: resultType is "task".
func (r *Run) Created() mcp.DetailedTask {
	t := r.Task()
	t.Status = mcp.TaskWorking
	t.StatusMessage = ""
	t.UpdatedAt = t.CreatedAt
	d := r.runner.detailed(&t, nil)
	d.ResultType = mcp.ResultTask
	return d
}

// BecomesReady is closed when the tool is ready. A tool that never says so never is.
func (v *View) BecomesReady() <-chan struct{} { return v.ready.Done() }
