package engine

import (
	"context"
	"errors"
	"time"

	"runnel/tasks"
)

// recover ends a task whose keeper is gone as failed, with its output so far. The task of a worker may wait
// for another worker instead.
func (sp *Space) recover(ctx context.Context, m Mark, stale map[Mark]time.Time) error {
	r, err := sp.Read(ctx, m.ID)
	switch {
	case errors.Is(err, tasks.ErrNotFound) || err == nil && r.Stored.Keeper != m.Keeper && r.Damage == nil:
		return sp.unmark(ctx, m, r, stale)
	case err != nil:
		return err
	case sp.Queue != nil && r.Damage == nil && r.Stored.Offer != nil &&
		(m.Keeper == sp.Keeper || r.Stored.Offer.Retries > 0):
		return sp.waitAgain(ctx, r, m.Keeper != sp.Keeper) // a stray of this process was taken, but not begun
	}
	if !m.Hidden && r.resumes() && r.LeftAt(sp.Now()) {
		return nil // it goes on in the process that takes it
	}
	r.Stored.Keeper = m.Keeper // that of a damaged record is unknown
	hidden := r.Hidden && r.Damage == nil
	ended, err := sp.conclude(ctx, r, func(t *tasks.Task) { t.FailOrphan(ctx) })
	switch {
	case err != nil || !ended:
		return err
	case hidden:
		// No client has its handle. It was ended first, because its process may have come back and given it
		// one.
		return sp.Driver.Delete(ctx, m.ID)
	}
	if r.Stored.Offer == nil && !tasks.IsFiles(m.ID) {
		sp.Recovered(&r.Task)
	}
	sp.Log.Info().Str("taskId", m.ID).Str("owner", sp.Owner).Str("tool", r.Tool).
		Msg("task recovered: its runnel is gone")
	return nil
}

// conclude stores the end of a task that no process runs, and reports whether it did: somebody else may have
// been faster.
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

// unmark removes a mark that its task's record does not know, once that record has had time to arrive. r may
// be nil.
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
