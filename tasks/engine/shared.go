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
		return s.Ask(ctx, owner, id) // a worker may have been faster
	}
	if r.Stored.Keeper == s.Keeper {
		sp.Want(id)
		return nil
	}
	return sp.Ask(ctx, r)
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
	if left, err := sp.endLeft(ctx, r); err != nil {
		return tasks.Task{}, err
	} else if left {
		return tasks.Task{}, tasks.ErrEnded
	}
	before := r.Stored.Keeper
	r.Stored.Keeper = s.Keeper
	r.Stored.Work = work
	r.Stored.Writer = s.Keeper
	r.Stored.Variables = nil
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
	if err := sp.Take(ctx, r, before); err != nil {
		there, unread := sp.Read(ctx, t.ID)
		if unread != nil || there.Stored.Keeper == before { // it may still be stored: then a sweep finds out, or Close
			sp.mu.Lock()
			sp.unanswered[t.ID] = struct{}{}
			sp.mu.Unlock()
		}
		if unread != nil || there.Stored.Keeper != s.Keeper {
			return tasks.Task{}, err
		}
		r.Revision = there.Revision // it was stored without being acknowledged
	}
	k.begin()
	return r.Task, nil
}

// Taken implements tasks.State.
func (s *State) Taken(ctx context.Context, id string) (bool, error) {
	for _, sp := range s.opened() {
		k := sp.kept(id)
		if k == nil {
			continue
		}
		if mine, err := k.mine(ctx); mine || err != nil {
			return false, err
		}
		sp.forget(id)
	}
	return true, nil
}

const (
	// lookInterval is how often a task of another process is read even without news.
	lookInterval = time.Second
	// waitingLooks is how many such intervals pass between two reads of a waiting task's record: its place in
	// line says almost everything.
	waitingLooks = 10
)

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
		r, changed, err := sp.look(ctx, t)
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if changed || err != nil {
			return err
		}
		for looks := 1; ; looks++ {
			wait, cancel := context.WithTimeout(ctx, lookInterval)
			err = heard.Wait(wait)
			silent := wait.Err() != nil
			cancel()
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err != nil && !silent {
				return err
			}
			if !silent || looks == waitingLooks || !sp.waitsOn(ctx, r, t) {
				break
			}
		}
	}
}

// look brings a task of another process up to date, and returns its record as it was read.
func (sp *Space) look(ctx context.Context, t *tasks.Task) (r *Record, changed bool, err error) {
	r, err = sp.Read(ctx, t.ID)
	if err == nil && r.Expired(sp.Now()) {
		err = tasks.ErrNotFound
	}
	if err != nil {
		return nil, false, err
	}
	if over, err := sp.Expire(ctx, r); err != nil {
		return nil, false, err
	} else if over {
		return sp.look(ctx, t)
	}
	sp.describe(ctx, r)
	if err := sp.outcome(ctx, r); err != nil {
		return nil, false, err
	}
	changed, err = t.Update(ctx, tasks.Newer{Task: r.Task, Ending: r.Ending, End: r.End, Output: sp.output(r), Ends: func(ctx context.Context, n int, last int64) ([]int64, error) {
		return sp.Ends(ctx, r, n, last)
	}})
	return r, changed, err
}

// waitsOn reports whether a task still waits, from its place in line alone.
func (sp *Space) waitsOn(ctx context.Context, r *Record, t *tasks.Task) bool {
	if !r.Waits() || r.overdue(sp.Now()) {
		return false
	}
	line, err := sp.lineUp(ctx, false)
	return err == nil && line.shows(r) && waitingMessage(r, line) == t.StatusMessage
}
