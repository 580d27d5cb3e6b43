package tasks

import (
	"context"
	"sync"

	"runnel/partials"
	"runnel/rpc"
	"runnel/rpc/mcp"
)

// View is a task as this process sees it: one that it runs (Run), or one that another process runs and this one follows (follow.go).
type View struct {
	id       string
	runner   *Runner
	log      *partials.Log
	segments *partials.Segments
	ctx      context.Context
	cancel   context.CancelCauseFunc
	detached rpc.Latch     // another process runs the task
	ended    rpc.Latch     // the terminal status is stored, and told; or nobody follows the task any more
	changes  rpc.Broadcast // changes of the status and the questions

	mu    sync.Mutex
	task  Task
	shown string      // the last line of output as somebody was last shown it
	open  []*Question // the questions that are open, oldest first

	settled map[string]bool // of a task that another process runs: questions that were answered here, by their keys (notes.go)

	following int // how many who have called Follow have not released it; guarded by runner.mu
}

// ID is the task's id: a random UUID, the secret that gives access to the task.
func (v *View) ID() string { return v.id }

// Log is what the work writes to.
func (v *View) Log() *partials.Log { return v.log }

// Segments numbers the output for SEP-1905.
func (v *View) Segments() *partials.Segments { return v.segments }

// Context ends when the work shall end.
func (v *View) Context() context.Context { return v.ctx }

// Ended is closed when the task has its terminal status and its output has been delivered.
func (v *View) Ended() <-chan struct{} { return v.ended.Done() }

// Watch announces changes of the task: changed receives after one or more of them. stop ends it.
func (v *View) Watch() (changed <-chan struct{}, stop func()) { return v.changes.Watch() }

// Task is the task as it is now.
func (v *View) Task() Task {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.task
}

// Questions are those that are open, by their keys.
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
func (v *View) Detached() <-chan struct{} { return v.detached.Done() }
