package run

import (
	"context"
	"sync"

	"runnel/internal/signal"
	"runnel/partials"
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

	mu    sync.Mutex
	phase stage[phase] // of a View without a Run: running, and ended when its task has ended or is not followed any more
	place stage[place]
	task  tasks.Task
	shown string      // the last line of output, as it was last shown
	open  []*Question // the questions that are open, oldest first

	answered map[string]bool // keys of questions that this process has answered for a task elsewhere (notes.go)

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
func (v *View) Ended() <-chan struct{} {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.phase.reached(ended)
}

// Watch announces changes of the status and the questions: changed receives a value after one or more of
// them. The caller must call stop.
func (v *View) Watch() (changed <-chan struct{}, stop func()) { return v.changes.Watch() }

// Task returns the task as it is now.
func (v *View) Task() tasks.Task {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.task
}

// end sets the task's last state, when the answers that show an earlier one are queued, and the phase.
func (v *View) end(t tasks.Task, p phase) {
	v.answering.Lock()
	defer v.answering.Unlock()
	v.mu.Lock()
	defer v.mu.Unlock()
	v.task = t
	v.phase.set(p)
}

// reach sets the phase.
func (v *View) reach(p phase) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.phase.set(p)
}

// past reports whether the task has come as far as a phase.
func (v *View) past(p phase) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.phase.now >= p
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

// Detached is closed when another process runs the task.
// Use it for what only the process that runs the task can do.
func (v *View) Detached() <-chan struct{} {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.place.reached(away)
}

// away reports whether another process runs the task.
func (v *View) away() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.place.now >= away
}
