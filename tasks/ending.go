package tasks

import (
	"context"

	"runnel/partials"
	"runnel/rpc"
	"runnel/rpc/mcp"
)

// Rest tells that the content of the result only repeats the output, but for items.
func (r *Run) Rest(items []mcp.ContentBlock) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ending = &partials.Ending{Rest: items}
}

// Ending is what the result has beyond the output. It is known when the work has returned, before the log is closed.
func (r *Run) Ending() partials.Ending {
	r.mu.Lock()
	defer r.mu.Unlock()
	return *r.ending
}

// setEnding tells the readers of the output how it ends.
func (r *Run) setEnding(result *mcp.CallToolResult, err *rpc.Error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err != nil:
		r.ending = &partials.Ending{Rest: []mcp.ContentBlock{mcp.Text(err.Message)}, IsError: true}
	case r.ending == nil:
		r.ending = &partials.Ending{Rest: result.Content, IsError: result.IsError}
	default:
		r.ending.IsError = result.IsError
	}
	r.segments.Finish(*r.ending)
}

// Segments numbers the output for SEP-1905.
func (r *Run) Segments() *partials.Segments { return r.segments }

// Merge makes the merged segments the task's result, as Spec.Merge does, where that is not known when the task is started.
// It must be called before the handle is sent, and not of a task that another process runs. It fails if that cannot be stored.
func (r *Run) Merge(ctx context.Context) error {
	r.door.Lock()
	defer r.door.Unlock()
	r.mu.Lock()
	r.task.Merge = true
	t, finishing := r.task, r.finishing
	r.mu.Unlock()
	if finishing {
		return nil // the end is stored behind this, or has been
	}
	if err := r.runner.o.State.Put(ctx, t); err != nil {
		return r.runner.refused(r, err)
	}
	return nil
}

// Complete lets the task end as completed whatever its result: "Tasks in immediate mode that return results immediately
// MUST have status completed" (SEP-1905, "Task Status"). It must be called before Deliver.
func (r *Run) Complete() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errorCompletes = true
}

// completes reports whether an error result completes the task.
func (r *Run) completes() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.errorCompletes || r.runner.o.ErrorsComplete
}
