package tasks

import (
	"time"

	"runnel/partials"
	"runnel/rpc/mcp"
)

// tailBytes is where a last line is looked for.
const tailBytes = 4 << 10

// Status is the task as it is now, with a message for its status.
func (r *Run) Status(message string) mcp.Task {
	t := r.show(message)
	t.StatusMessage = clip(message)
	return t.wire(r.runner.o.PollInterval)
}

// live is the task as it is now; while it works, its message is the last line of its output, which
// is all that some hosts show.
func (r *Run) live() Task {
	line := partials.LastLine(r.log.Tail(tailBytes))
	t := r.show(line)
	if t.Status == mcp.TaskWorking {
		t.StatusMessage = clip(line)
	}
	return t
}

// show is the task, which is updated if it works and its status is about to say something else than when it was last shown.
func (r *Run) show(line string) Task {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.task.Status == mcp.TaskWorking && line != r.shown {
		r.shown, r.task.UpdatedAt = line, time.Now()
	}
	return r.task
}
