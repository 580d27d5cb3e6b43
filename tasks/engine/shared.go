package engine

import (
	"context"
	"errors"
	"time"

	"runnel/rpc/mcp"
	"runnel/tasks"
)

// Ask implements tasks.State.
func (s *State) Ask(ctx context.Context, owner, id string) error {
	sp, r, err := s.find(ctx, owner, id)
	if errors.Is(err, tasks.ErrNotFound) || err == nil && r.Terminal() {
		return nil
	} else if err != nil {
		return err
	}
	if r.Waits() {
		if err := sp.endUnkept(ctx, r, mcp.TaskCancelled, "cancelled by the client"); err != nil {
			return err
		}
		return s.Ask(ctx, owner, id) // a worker may have been quicker
	}
	if r.Stored.Keeper == s.Keeper {
		sp.Want(id)
		return nil
	}
	return sp.Store.Ask(ctx, r)
}

// Take implements tasks.State.
func (s *State) Take(ctx context.Context, t tasks.Task, work []byte) (tasks.Task, error) {
	sp, r, err := s.find(ctx, t.Owner, t.ID)
	if err == nil && (r.Terminal() || r.Stored.Work != nil) {
		err = errors.New("the task has ended, or another process runs it")
	}
	if err != nil {
		return tasks.Task{}, err
	}
	before := r.Stored.Keeper
	r.Stored.Keeper, r.Stored.Work, r.Stored.Writer, r.Stored.Variables = s.Keeper, work, s.Keeper, nil
	if r.Stored.Offer != nil {
		r.Stored.Offer.Attempt++
	}
	r.take()
	r.Log, r.Segments = t.Log, t.Segments
	k := sp.keeping(r)
	k.numbers = true
	if r.Attempt > 1 {
		if err := k.resume(ctx); err != nil {
			return tasks.Task{}, err
		}
	}
	if err := sp.Store.Take(ctx, r, before); err != nil {
		there, unread := sp.Read(ctx, t.ID)
		if unread != nil || there.Stored.Keeper != s.Keeper { // if it is this one's all the same, a sweep finds out
			return tasks.Task{}, err
		}
		r.Revision = there.Revision // it was stored, and nobody has said so
	}
	k.begin()
	return r.Task, nil
}

// Taken implements tasks.State.
func (s *State) Taken(ctx context.Context, id string) (bool, error) {
	for _, sp := range s.opened() {
		if !sp.Runs(id) {
			continue
		}
		r, err := sp.Read(ctx, id)
		switch {
		case errors.Is(err, tasks.ErrNotFound): // it has ended since, and was deleted
		case err != nil:
			return false, err
		case r.Stored.Keeper == s.Keeper:
			return false, nil
		}
		sp.forget(id)
	}
	return true, nil
}

// lookInterval is how often a task of another process is looked at though nothing was heard of it.
const lookInterval = time.Second

// Watch implements tasks.State.
func (s *State) Watch(ctx context.Context, t *tasks.Task) error {
	sp, err := s.Space(ctx, t.Owner)
	if err != nil {
		return err
	}
	heard, err := sp.Hear(ctx, t.ID)
	if err != nil {
		return err
	}
	defer heard.Close()
	for {
		changed, err := sp.look(ctx, t)
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if changed || err != nil {
			return err
		}
		wait, cancel := context.WithTimeout(ctx, lookInterval)
		err = heard.Wait(wait)
		cancel()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
	}
}

// look brings a task of another process up to date.
func (sp *Space) look(ctx context.Context, t *tasks.Task) (changed bool, err error) {
	r, err := sp.Read(ctx, t.ID)
	if err == nil && r.Expired(sp.Now()) {
		err = tasks.ErrNotFound
	}
	if err != nil {
		return false, err
	}
	if r.overdue(sp.Now()) {
		if err := sp.endOverdue(ctx, r); err != nil {
			return false, err
		}
		return sp.look(ctx, t)
	}
	sp.describe(ctx, r)
	if err := sp.outcome(ctx, r); err != nil {
		return false, err
	}
	return t.Update(ctx, tasks.Newer{Task: r.Task, Ending: r.Ending, End: r.End, Output: sp.output(r), Ends: func(ctx context.Context, n int, last int64) ([]int64, error) {
		return sp.Ends(ctx, r, n, last)
	}})
}
