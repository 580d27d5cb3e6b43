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

// every calls do at an interval until Close.
func (sp *Space) every(interval time.Duration, do func(context.Context) error, what string) {
	// Consecutive failures: a state that is unreachable often stays so, and one line a minute is enough.
	failed := 0
	var logged time.Time
	next := time.NewTicker(interval)
	defer next.Stop()
	for {
		select {
		case <-next.C:
		case <-sp.ctx.Done():
			return
		}
		switch err := do(sp.ctx); {
		case sp.ctx.Err() != nil:
		case err == nil && failed > 0:
			sp.Log.Info().Int("failed", failed).Msg(what + " succeeds again")
			failed = 0
		case err != nil:
			if failed++; failed == 1 || time.Since(logged) >= time.Minute {
				logged = time.Now()
				sp.Log.Warn().Err(err).Int("failed", failed).Msg(what)
			}
		}
	}
}

// Renew renews the lease of this process. If the lease had run out, others may have ended its tasks: Renew
// looks for those.
func (sp *Space) Renew(ctx context.Context) error {
	err := sp.Lease(ctx)
	sp.unleased.Store(err != nil)
	if err != nil {
		return err
	}
	now := sp.Now().Round(0) // the wall clock, because the machine may have slept
	sp.mu.Lock()
	before := sp.renewed
	sp.mu.Unlock()
	if !before.IsZero() && now.Sub(before) > LeaseTTL-RenewInterval {
		if err := sp.findFenced(ctx, sp.mine()); err != nil {
			return err
		}
	}
	sp.mu.Lock()
	sp.renewed = now
	sp.mu.Unlock()
	return nil
}

// mine returns the tasks that this process runs.
func (sp *Space) mine() []*backing {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	return slices.Collect(maps.Values(sp.live))
}

// findFenced finds those of some tasks of this process that others have ended, or that the server has lost.
func (sp *Space) findFenced(ctx context.Context, mine []*backing) error {
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

// SweepInTurn is called at intervals. One of an owner's processes sweeps for all; the others look after their
// own tasks alone, so that what the servers do for it does not grow with the square of the processes.
func (sp *Space) SweepInTurn(ctx context.Context) error {
	if sp.unleased.Load() { // see sweep
		return sp.sweep(ctx, false)
	}
	all, err := sp.Sweeps(ctx, !sp.failed.Load())
	if err == nil {
		err = sp.sweep(ctx, all)
	}
	sp.failed.Store(err != nil)
	return err
}

// Sweep ends the tasks of processes that are gone, also if it is another process's turn: the engine lets one
// of them end each task.
func (sp *Space) Sweep(ctx context.Context) error { return sp.sweep(ctx, true) }

// sweep looks after all tasks of the owner, or after those of this process alone. A process that could not
// renew its own lease does nothing: the others may have been unable to renew theirs, too.
func (sp *Space) sweep(ctx context.Context, all bool) error {
	sp.sweeping.Lock()
	defer sp.sweeping.Unlock()
	before := sp.missed
	sp.missed = nil // if this sweep fails, the next one starts afresh: the server may have been unreachable
	if sp.unleased.Load() {
		return nil
	}
	if err := cmp.Or(sp.Tidy(ctx), sp.undo(ctx)); err != nil {
		return err
	}
	mine, keeper := sp.mine(), sp.Keeper
	if all {
		keeper = ""
	}
	marks, err := sp.Marks(ctx, keeper) // before the leases, so that the process of each mark has a lease
	if err != nil {
		return err
	}
	var alive []string
	if all {
		alive, err = sp.Alive(ctx)
	} else {
		alive, err = sp.aliveFronts(ctx, mine)
	}
	if err != nil {
		return err
	}
	marked := map[string]bool{}
	for _, m := range marks {
		marked[m.ID] = marked[m.ID] || m.Keeper == sp.Keeper
	}
	if err := sp.findFenced(ctx, slices.DeleteFunc(mine,
		func(k *backing) bool { return marked[k.id] })); err != nil {
		return err
	}
	missed := map[string]time.Time{}
	// A process gets time to renew its lease: while the servers were down all leases ran out, even those of
	// living processes.
	gone := func(keeper string) bool {
		if slices.Contains(alive, keeper) {
			return false
		}
		since, known := before[keeper]
		if !known {
			since = sp.Now()
		}
		missed[keeper] = since
		return sp.Now().Sub(since) >= RenewInterval
	}
	strays := map[string]bool{}
	stale := map[Mark]time.Time{}
	for _, m := range marks {
		switch {
		case m.Keeper == sp.Keeper && sp.kept(m.ID) != nil:
			continue
		case m.Keeper == sp.Keeper:
			if strays[m.ID] = true; !sp.strays[m.ID] { // this process may just be taking it
				continue
			}
		case !gone(m.Keeper):
			continue
		}
		failed := sp.recover(ctx, m, stale)
		if errors.Is(failed, tasks.ErrBusy) {
			return failed
		}
		err = cmp.Or(err, failed) // the others are still ended
	}
	if sp.Queue != nil {
		err = cmp.Or(err, sp.leaveWithFront(ctx, gone))
	}
	if sp.Queue != nil && all {
		err = cmp.Or(err, sp.tend(ctx, stale))
	}
	sp.missed = missed
	sp.strays = strays
	sp.stale = stale
	return err
}

// undo deletes what may be stored of refused tasks: nobody has their handles.
func (sp *Space) undo(ctx context.Context) error {
	sp.mu.Lock()
	doubtful := slices.Collect(maps.Keys(sp.doubtful))
	sp.mu.Unlock()
	for _, id := range doubtful {
		if err := sp.clear(ctx, id); err != nil {
			return err // the next sweep tries again
		}
	}
	return nil
}
