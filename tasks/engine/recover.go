package engine

import (
	"context"
	"errors"
	"time"

	"runnel/tasks"
)

// recover ends a task whose keeper is gone as failed, with its output so far. The task of a worker may wait for another worker instead.
func (sp *Space) recover(ctx context.Context, m Mark, stale map[Mark]time.Time) error {
	r, err := sp.Read(ctx, m.ID)
	switch {
	case errors.Is(err, tasks.ErrNotFound) || err == nil && r.Stored.Keeper != m.Keeper && r.Damage == nil:
		return sp.unmark(ctx, m, r, stale)
	case err != nil:
		return err
	case sp.Queue != nil && r.Damage == nil && r.Stored.Offer != nil && (m.Keeper == sp.Keeper || r.Stored.Offer.Retries > 0):
		return sp.waitAgain(ctx, r, m.Keeper != sp.Keeper) // a stray of this process was taken, but not begun
	}
	r.Stored.Keeper = m.Keeper // that of a damaged record is unknown
	hidden := r.Stored.Hidden && r.Damage == nil
	ended, err := sp.conclude(ctx, r, func(t *tasks.Task) { t.FailOrphan(ctx) })
	switch {
	case err != nil || !ended:
		return err
	case hidden: // nobody has its handle. It was ended first, because its process may have come back and given it one
		return sp.Delete(ctx, m.ID)
	}
	if r.Stored.Offer == nil {
		sp.Recovered(&r.Task)
	}
	sp.Log.Info().Str("taskId", m.ID).Str("owner", sp.Owner).Str("tool", r.Tool).Msg("task recovered: its runnel is gone")
	return nil
}
