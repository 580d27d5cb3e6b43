package tasks

import (
	"context"
	"time"

	"runnel/partials"
	"runnel/rpc/mcp"
)

// While a task works, its status message is the last line of its output, which is all that some hosts show.

// LinePace is the least time between two status notifications that only show the last line of output, the handle
// counted as one and the terminal one not: a task that is over sooner shows none.
const LinePace = time.Second

// tailBytes is how much of the end of the output a last line is looked for in.
const tailBytes = 4 << 10

// Status is the task as it is now, with a message that says what it does.
func (r *Run) Status(message string) mcp.Task {
	t := r.show(message)
	t.StatusMessage = Clip(message)
	return t.wire(r.runner.o.PollInterval)
}

// live is the task as it is now; while it works, it says the last line of its output.
func (r *Run) live() Task {
	line := partials.LastLine(r.log.Tail(tailBytes))
	t := r.show(line)
	if t.Status == mcp.TaskWorking {
		t.StatusMessage = Clip(line)
	}
	return t
}

// show is the task as it is now. A line that was not the last one when the task was last shown updates it: lastUpdatedAt changes.
func (r *Run) show(line string) Task {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.task.Status == mcp.TaskWorking && line != r.shown {
		r.shown, r.task.UpdatedAt = line, time.Now()
	}
	return r.task
}

// LastLine is the last line of a task's output that is not blank, as far as its end shows it.
func (t *Task) LastLine(ctx context.Context) string {
	var line string
	for pos := max(t.Log.Size()-tailBytes, 0); pos < t.Log.Size(); {
		b, next, err := t.Log.ReadAt(ctx, pos, tailBytes)
		if err != nil || next <= pos {
			break
		}
		if last := partials.LastLine(b); last != "" {
			line = last
		}
		pos = next
	}
	return line
}
