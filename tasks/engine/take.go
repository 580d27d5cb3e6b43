package engine

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"runnel/internal/pause"
	"runnel/tasks"
)

// Take implements tasks.Shared.
func (sp *Space) Take(ctx context.Context, t tasks.Task, work []byte) (tasks.Task, error) {
	err := sp.Ready(ctx)
	if err != nil {
		return tasks.Task{}, err
	}
	sp.mu.Lock()
	r := sp.latest
	sp.latest = nil
	sp.mu.Unlock()
	if r != nil && r.ID == t.ID {
		if taken, err := sp.takeSeen(ctx, r, t, work); !errors.Is(err, tasks.ErrFenced) {
			return taken, err
		}
	}
	var fenced error
	keeper := ""
	for range takeTries {
		if r, err = sp.Lookup(ctx, t.ID); err != nil {
			return tasks.Task{}, err
		}
		if fenced != nil && r.Stored.Keeper != keeper { // another process was faster
			break
		}
		keeper = r.Stored.Keeper
		taken, err := sp.takeSeen(ctx, r, t, work)
		if fenced = err; !errors.Is(err, tasks.ErrFenced) {
			return taken, err
		}
		if !pause.For(ctx, takeAgain) {
			break
		}
	}
	return tasks.Task{}, fenced
}

// A replica that lags may show an old version of a task, which is refused. The task is then read again after
// takeAgain, up to takeTries times in all.
const (
	takeTries = 10
	takeAgain = 100 * time.Millisecond
)

// takeSeen is Take with the record as this process has seen it; it fails with tasks.ErrFenced if there is a
// newer one.
func (sp *Space) takeSeen(ctx context.Context, r *Record, t tasks.Task, work []byte) (tasks.Task, error) {
	resumes := r.resumes()
	if r.Terminal() || r.Stored.Work != nil && !resumes {
		return tasks.Task{}, tasks.ErrTaken
	}
	if resumes {
		if gone, err := sp.keeperGone(ctx, r); err != nil {
			return tasks.Task{}, err
		} else if !gone {
			return tasks.Task{}, tasks.ErrTaken
		}
	}
	if left, err := sp.endLeft(ctx, r); err != nil {
		return tasks.Task{}, err
	} else if left {
		return tasks.Task{}, tasks.ErrEnded
	}
	before := r.Stored.Keeper
	r.Stored.Keeper = sp.Keeper
	r.Stored.Work = work
	r.Stored.Writer = sp.Keeper
	r.Stored.Variables = nil
	if r.Stored.Offer != nil {
		r.Stored.Offer.Attempt++
	}
	r.take()
	r.Log, r.Segments = t.Log, t.Segments
	k := sp.backing(r)
	k.numbers = true
	// One that resumes may have output before its first attempt: a front has taken it, and offered it again.
	if r.Attempt > 1 || tasks.Resumes(r.Variables) != "" {
		if err := k.resume(ctx); err != nil {
			return tasks.Task{}, err
		}
	}
	if err := sp.Driver.Take(ctx, r, before); err != nil {
		there, unread := sp.Read(ctx, t.ID)
		// It may still be stored: then a sweep finds out, or Close.
		if unread != nil || there.Stored.Keeper == before {
			sp.mu.Lock()
			sp.unanswered[t.ID] = struct{}{}
			sp.mu.Unlock()
		}
		if unread != nil || there.Stored.Keeper != sp.Keeper {
			return tasks.Task{}, err
		}
		r.Revision = there.Revision // it was stored without being acknowledged
	}
	k.begin()
	return r.Task, nil
}

// Taken implements tasks.Shared.
func (sp *Space) Taken(ctx context.Context, id string) (bool, error) {
	if k := sp.kept(id); k != nil {
		if mine, err := k.mine(ctx); mine || err != nil {
			return false, err
		}
		sp.forget(id)
	}
	return true, nil
}

// resumes reports whether another process can continue the task when its keeper is gone. A task of workers
// waits for another worker instead.
func (r *Record) resumes() bool {
	return r.Damage == nil && r.Stored.Offer == nil && !r.Terminal() && tasks.Resumes(r.Variables) != ""
}

// keeperGone reports whether the keeper of a task has been without a lease for long enough: it gets time to
// renew it, since while the servers were down all leases ran out.
func (sp *Space) keeperGone(ctx context.Context, r *Record) (bool, error) {
	alive, err := sp.alive(ctx)
	if err != nil || r.Stored.Keeper == sp.Keeper || slices.Contains(alive, r.Stored.Keeper) {
		return false, err
	}
	sp.mu.Lock()
	defer sp.mu.Unlock()
	since, known := sp.absent[r.Stored.Keeper]
	if !known {
		since = sp.Now()
		sp.absent[r.Stored.Keeper] = since
	}
	return sp.Now().Sub(since) >= RenewInterval, nil
}

// alive is Alive. A process that has a lease again is no longer absent.
func (sp *Space) alive(ctx context.Context) ([]string, error) {
	alive, err := sp.Alive(ctx)
	if err != nil {
		return nil, err
	}
	sp.mu.Lock()
	defer sp.mu.Unlock()
	maps.DeleteFunc(sp.absent, func(keeper string, _ time.Time) bool { return slices.Contains(alive, keeper) })
	return alive, nil
}

// Left implements tasks.Shared.
func (sp *Space) Left(ctx context.Context) (list []tasks.Task, err error) {
	if err := sp.Ready(ctx); err != nil {
		return nil, err
	}
	marks, err := sp.Marks(ctx, "")
	if err != nil || len(marks) == 0 {
		return nil, err
	}
	alive, err := sp.alive(ctx)
	if err != nil {
		return nil, err
	}
	for _, m := range marks {
		if m.Hidden || m.Keeper == QueueKeeper || m.Keeper == sp.Keeper || slices.Contains(alive, m.Keeper) {
			continue
		}
		r, err := sp.Read(ctx, m.ID)
		switch {
		case errors.Is(err, tasks.ErrNotFound) || err == nil && (!r.resumes() || r.Stored.Keeper != m.Keeper):
			continue
		case err != nil:
			return nil, err
		}
		if gone, err := sp.keeperGone(ctx, r); err != nil {
			return nil, err
		} else if gone && r.LeftAt(sp.Now()) {
			list = append(list, r.Task)
		}
	}
	return list, nil
}

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

// conclude stores the end of a task that no process runs, and reports whether it did: another process may
// have been faster.
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
