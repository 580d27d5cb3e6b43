package engine

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"runnel/tasks"
)

// every calls do until Close.
func (sp *Space) every(interval time.Duration, do func(context.Context) error, what string) {
	next := time.NewTicker(interval)
	defer next.Stop()
	for {
		select {
		case <-next.C:
		case <-sp.ctx.Done():
			return
		}
		if err := do(sp.ctx); err != nil && sp.ctx.Err() == nil {
			sp.Log.Warn().Err(err).Msg(what)
		}
	}
}

// Renew says that this process lives. If that could not be said for longer than others believe it, they may have ended its tasks.
func (sp *Space) Renew(ctx context.Context) error {
	if err := sp.Lease(ctx); err != nil {
		return err
	}
	now := sp.Now().Round(0) // the wall clock: the machine may have slept
	sp.mu.Lock()
	before := sp.renewed
	sp.mu.Unlock()
	if !before.IsZero() && now.Sub(before) > LeaseTTL-RenewInterval {
		if err := sp.findFenced(ctx); err != nil {
			return err
		}
	}
	sp.mu.Lock()
	sp.renewed = now
	sp.mu.Unlock()
	return nil
}

// findFenced looks which tasks of this process others have ended.
func (sp *Space) findFenced(ctx context.Context) error {
	sp.mu.Lock()
	mine := slices.Collect(maps.Values(sp.live))
	sp.mu.Unlock()
	for _, k := range mine {
		r, err := sp.Read(ctx, k.id)
		switch {
		case errors.Is(err, tasks.ErrNotFound) || err == nil && r.Stored.Writer != sp.Keeper:
			sp.fence(k)
		case err != nil:
			return err
		}
	}
	return nil
}

// staleTime is how long a mark stays that no record knows of: it is written first, and its record may be on the way.
const staleTime = time.Minute

// Sweep ends the tasks of processes that are gone. Several processes may do it at once: the engine lets one of them.
func (sp *Space) Sweep(ctx context.Context) error {
	sp.mu.Lock()
	before := sp.missed
	sp.missed = nil // if this look fails, the next one begins anew: the server may have been away
	sp.mu.Unlock()
	if err := cmp.Or(sp.DropExpired(ctx), sp.undo(ctx)); err != nil {
		return err
	}
	marks, err := sp.Marks(ctx) // before the leases: who has left a mark since has one
	if err != nil {
		return err
	}
	alive, err := sp.Alive(ctx)
	if err != nil {
		return err
	}
	missed, strays, stale := map[string]time.Time{}, map[string]bool{}, map[Mark]time.Time{}
	for _, m := range marks {
		switch {
		case m.Keeper == sp.Keeper && sp.Runs(m.ID):
			continue
		case m.Keeper == sp.Keeper:
			if strays[m.ID] = true; !sp.strays[m.ID] { // it may be on its way to be taken
				continue
			}
		case slices.Contains(alive, m.Keeper):
			continue
		default: // it has time to renew its lease: while the servers were away all leases ran out, and not their processes' lives
			since, known := before[m.Keeper]
			if !known {
				since = sp.Now()
			}
			if missed[m.Keeper] = since; sp.Now().Sub(since) < RenewInterval {
				continue
			}
		}
		failed := sp.recover(ctx, m, stale)
		if errors.Is(failed, tasks.ErrBusy) {
			return failed
		}
		err = cmp.Or(err, failed) // the others are ended all the same
	}
	if sp.queue != nil {
		err = cmp.Or(err, sp.tend(ctx, stale))
	}
	sp.mu.Lock()
	sp.missed = missed
	sp.mu.Unlock()
	sp.strays, sp.stale = strays, stale
	return err
}

// undo deletes what may be stored of tasks that were refused: nobody has their handles.
func (sp *Space) undo(ctx context.Context) error {
	sp.mu.Lock()
	doubtful := slices.Collect(maps.Keys(sp.doubtful))
	sp.mu.Unlock()
	for _, id := range doubtful {
		if err := sp.Store.Delete(ctx, id, ""); err != nil {
			return err // the next sweep tries again
		}
		sp.mu.Lock()
		delete(sp.doubtful, id)
		sp.mu.Unlock()
	}
	return nil
}

// recover ends a task whose keeper is gone: it has failed, with what it had written. That of a worker may wait for another one instead.
func (sp *Space) recover(ctx context.Context, m Mark, stale map[Mark]time.Time) error {
	r, err := sp.Read(ctx, m.ID)
	switch {
	case errors.Is(err, tasks.ErrNotFound) || err == nil && r.Stored.Keeper != m.Keeper && r.Damage == nil:
		return sp.unmark(ctx, m, r, stale)
	case err != nil:
		return err
	case r.Damage == nil && r.Stored.Hidden:
		return sp.Store.Delete(ctx, m.ID, m.Keeper)
	case sp.queue != nil && r.Damage == nil && r.Stored.Offer != nil && (m.Keeper == sp.Keeper || r.Stored.Offer.Retries > 0):
		return sp.waitAgain(ctx, r, m.Keeper != sp.Keeper) // a stray of this process was taken, but not begun
	}
	r.Stored.Keeper = m.Keeper // that of a damaged one is not known
	if err := sp.conclude(ctx, r, func(t *tasks.Task) { t.FailOrphan(ctx) }); err != nil {
		return err
	}
	sp.Log.Info().Str("taskId", m.ID).Str("owner", sp.Owner).Str("tool", r.Tool).Msg("task recovered: its runnel is gone")
	return nil
}

// unmark takes a mark away that no record knows of, once its record has had time to come. r may be nil.
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

// conclude stores the end of a task that no process runs. If somebody else was quicker, nothing happens.
func (sp *Space) conclude(ctx context.Context, r *Record, end func(t *tasks.Task)) error {
	if err := sp.Measure(ctx, r); err != nil {
		return err
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
	err := sp.end(ctx, r, false)
	if errors.Is(err, tasks.ErrFenced) {
		return nil
	}
	return err
}

// end stores the end of a task with its outcome.
func (sp *Space) end(ctx context.Context, r *Record, wasHidden bool) error {
	outcome, err := tasks.EncodeOutcome(&r.Task)
	if err != nil {
		return err
	}
	return sp.End(ctx, r, wasHidden, outcome)
}
