package tasks

import (
	"context"

	"runnel/partials"
)

// tailPage is how many bytes are read at a time.
const tailPage = 256 << 10

// Tail passes a task's output after a position to write: what there is and, with follow, what comes until the
// task has ended. Where output is no longer kept, Batch.Start is after the End of the batch before. It
// returns the task as it then is, or the error of write.
func (r *Runner) Tail(ctx context.Context, id string, after int64, follow bool, write func(partials.Batch) error) (Task, error) {
	if follow {
		v, release, err := r.Follow(ctx, id)
		if err != nil {
			return Task{}, err
		}
		defer release()
		for v != nil && v.Log().Grown(ctx, after) == nil {
			if after, err = tail(ctx, v.Log(), after, write); err != nil {
				return v.Task(), err
			}
		}
		if v != nil && ctx.Err() == nil {
			select {
			case <-v.Ended():
			case <-ctx.Done():
			}
		}
		if ctx.Err() != nil {
			return Task{ID: id}, context.Cause(ctx)
		}
	}
	t, err := r.Head(ctx, id)
	if err == nil {
		_, err = tail(ctx, t.Log, after, write)
	}
	return t, err
}

// tail passes what a log has after a position to write, and returns where that ends.
func tail(ctx context.Context, log *partials.Log, after int64, write func(partials.Batch) error) (int64, error) {
	for after < log.Size() {
		b, next, err := log.ReadAt(ctx, after, tailPage)
		if err != nil {
			return after, err
		}
		if b.End > b.Start {
			if err := write(b); err != nil {
				return after, err
			}
		}
		after = next
	}
	return after, nil
}
