package tasks

import (
	"context"
	"time"

	"runnel/partials"
	"runnel/rpc/mcp"
)

const (
	// tailPoll is how often the output of a task of another process is looked for: as often as that process stores it.
	tailPoll = 100 * time.Millisecond
	// tailPage is how many bytes are read at a time.
	tailPage = 256 << 10
)

// Tail hands out a task's output from a position on: what there is, and with follow what comes until the task has ended.
// Batch.Start is beyond the position that was reached where output is no longer kept. It returns the task as it is then, or
// the error of write.
func (r *Runner) Tail(ctx context.Context, id string, after int64, follow bool, write func(partials.Batch) error) (Task, error) {
	for {
		// The end of a task is stored with the last of its output: what is read behind it is all.
		t, err := r.Get(ctx, id)
		if err != nil {
			return t, err
		}
		for after < t.Log.Size() {
			b, next, err := t.Log.ReadAt(ctx, after, tailPage)
			if err != nil {
				return t, err
			}
			if len(b.Chunks) > 0 {
				if err := write(b); err != nil {
					return t, err
				}
			}
			after = next
		}
		if !follow || t.Status.Terminal() {
			return t, nil
		}
		select {
		case <-time.After(tailPoll):
		case <-ctx.Done():
			return t, context.Cause(ctx)
		}
	}
}

// Shown is the task as tasks/get shows it.
func (t *Task) Shown() mcp.Task {
	shown := t.wire(0)
	shown.Meta = WithVariables(nil, t, 0)
	return shown
}
