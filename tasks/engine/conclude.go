package engine

import (
	"context"
	"errors"
	"time"

	"runnel/tasks"
)

// conclude stores the end of a task that no process runs, and reports whether it did: somebody else may have been faster.
func (sp *Space) conclude(ctx context.Context, r *Record, end func(t *tasks.Task)) (ended bool, err error) {
	if err := sp.Measure(ctx, r); err != nil {
		return false, err
	}
	r.Log = sp.log(r)
	if r.Damage == nil {
		end(&r.Task)
	} else {
		r.Segments = restore(r, nil)
	}
	r.UpdatedAt = sp.Now()
	r.put(sp.Keeper)
	r.Stored.End = r.End
	err = sp.end(ctx, r)
	if errors.Is(err, tasks.ErrFenced) {
		return false, nil
	}
	return err == nil, err
}

// unmark removes a mark that its task's record does not know, once that record has had time to arrive. r may be nil.
func (sp *Space) unmark(ctx context.Context, m Mark, r *Record, stale map[Mark]time.Time) error {
	since, known := sp.stale[m]
	if !known {
		since = sp.Now()
	}
	if (r == nil || !r.Terminal()) && sp.Now().Sub(since) < staleTime {
		stale[m] = since
		return nil
	}
	return sp.Unmark(ctx, m)
}

// staleTime is how long such a mark stays: marks are written before records.
const staleTime = time.Minute
