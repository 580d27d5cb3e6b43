package tasks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"runnel/rpc/mcp"
)

// A task that another process runs is followed here while somebody wants to see how it goes on or ends: its Run is brought up to date by
// the state, and makes its own log grow as the other's does. It is the Run that has detached the task, which goes on to the
// task's end, or one of Runner.Follow, which ends with the last who needs it.

// lookAgain is when a task that is followed is looked at again after that has failed.
const lookAgain = 400 * time.Millisecond

// Follow returns the run of a task: the one that there is, or a new one that follows it. It is nil if the task has ended.
// release must be called in the end.
func (r *Runner) Follow(ctx context.Context, id string) (run *Run, release func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if run = r.running(id); run == nil {
		if _, ok := r.unsettled[id]; ok {
			return nil, func() {}, nil
		}
		r.mu.Unlock()
		t, err := r.o.State.Follow(ctx, r.o.Owner, id)
		r.mu.Lock()
		if err != nil || t.Status.Terminal() {
			return nil, func() {}, err
		}
		if run = r.running(id); run == nil { // else somebody follows it by now
			run = r.startFollower(t)
		}
	}
	run.following++
	return run, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if run.following--; run.following == 0 && run.follower {
			r.drop(run)
			run.cancel(errLeft)
		}
	}, nil
}

// startFollower makes the run of a task that was never run here. r.mu is held.
func (r *Runner) startFollower(t Task) *Run {
	run := r.newRun(Spec{Tool: t.Tool, Handle: true}, t)
	run.follower = true
	run.owed = 0 // there may be no delivery
	run.detached.Set()
	r.followed[t.ID] = run
	r.all.Go(run.follow)
	return run
}

// follow returns when the task has ended where it runs, when nobody follows it any more, or when the Runner is closed.
func (r *Run) follow() {
	t, err := r.lookOn()
	switch {
	case errors.Is(err, ErrNotFound), errors.Is(err, errExpired):
		t.Status, t.StatusMessage, t.UpdatedAt = mcp.TaskFailed, expiredMessage, time.Now()
		t.Outcome = &Outcome{Result: mcp.ErrorResult("The task's ttl is over.")}
	case err != nil:
		t.Outcome = &Outcome{Result: mcp.ErrorResult(errClosed.Error() + "; the task goes on")}
	case t.Status != mcp.TaskCancelled:
		r.mu.Lock()
		r.ending = t.Segments.Ending()
		r.mu.Unlock()
		r.awaitDelivery()
	}
	r.mu.Lock()
	r.finishing = true
	r.mu.Unlock()
	if t.Status.Terminal() && t.Status != mcp.TaskCancelled {
		r.deliverRest()
	}
	r.stop(err)
	r.worked.Set()
	r.door.Lock()
	defer r.door.Unlock()
	if t.Status.Terminal() {
		if told := r.Task().UpdatedAt; t.UpdatedAt.Before(told) {
			t.UpdatedAt = told // of output that this process saw before the end
		}
		r.conclude(t, true)
		return
	}
	r.runner.forget(r)
	r.mu.Lock()
	r.task = t
	r.mu.Unlock()
	r.ended.Set()
}

// lookOn brings the run up to date until the task has ended, which it returns as it is then. It fails with ErrNotFound when the task
// is gone, and with the cause of the run's context.
func (r *Run) lookOn() (Task, error) {
	for failed := false; ; {
		t := r.Task()
		before := t.Status
		switch err := r.runner.o.State.Watch(r.ctx, &t); {
		case errors.Is(err, ErrNotFound):
			return t, err
		case r.ctx.Err() != nil:
			return t, context.Cause(r.ctx)
		case err != nil:
			if !failed { // a full disk stays full for many looks
				r.runner.o.Log.Warn().Err(err).Str("taskId", r.id).Msg("looking at a task that another process runs")
			}
			failed = true
			select {
			case <-time.After(lookAgain):
			case <-r.ctx.Done():
			}
			continue
		case t.Status.Terminal():
			return t, nil
		}
		failed = false
		r.mu.Lock()
		t.Merge = t.Merge || r.task.Merge
		if t.UpdatedAt.Before(r.task.UpdatedAt) {
			t.UpdatedAt = r.task.UpdatedAt // by its output
		}
		r.task = t
		r.mu.Unlock()
		if t.Status != before {
			if r.spec.Status != nil {
				r.spec.Status(t.wire(r.runner.o.PollInterval))
			}
			r.changes.Send()
		}
	}
}

// Await returns a task when it has ended.
func (r *Runner) Await(ctx context.Context, id string) (Task, error) {
	run, release, err := r.Follow(ctx, id)
	if err != nil {
		return Task{}, err
	}
	defer release()
	if run == nil {
		return r.Get(ctx, id)
	}
	select {
	case <-run.Ended():
	case <-ctx.Done():
		return Task{}, context.Cause(ctx)
	}
	t := run.Task()
	switch {
	case !t.Status.Terminal(): // only the following of it has ended, with the Runner, and so does the request
		<-ctx.Done()
		return t, context.Cause(ctx)
	case run.detached.IsSet(): // it may have been forgotten where it ran
		return r.Get(ctx, id)
	case t.Expired(r.o.now()):
		return Task{}, ErrNotFound
	}
	return t, nil
}

// Cancel cancels a task of the owner. It returns the task as it is then, with ErrEnded if it had ended before.
func (r *Runner) Cancel(ctx context.Context, id string) (Task, error) {
	if run := r.Running(id); run != nil {
		if !run.endsWithin(ctx, r.o.AskTimeout) {
			return run.Task(), ErrEnding
		}
		if run.Cancel("cancelled by the client") && !run.detached.IsSet() {
			return run.Task(), nil
		}
	}
	t, err := r.Head(ctx, id)
	switch {
	case err != nil:
	case t.Status.Terminal():
		err = ErrEnded
	default:
		t, err = r.cancelElsewhere(ctx, id)
	}
	return t, err
}

// cancelElsewhere asks for a task's cancellation and returns the task once it has ended, with ErrEnded if it ended otherwise.
func (r *Runner) cancelElsewhere(ctx context.Context, id string) (Task, error) {
	if err := r.o.State.Ask(ctx, r.o.Owner, id); err != nil {
		return Task{}, err
	}
	wait, cancel := context.WithTimeout(ctx, r.o.AskTimeout) // from here on: to ask may have waited for the state
	defer cancel()
	t, err := r.Await(wait, id)
	if err != nil && ctx.Err() == nil && wait.Err() != nil {
		return t, fmt.Errorf("%w in %v", ErrAsked, r.o.AskTimeout)
	}
	if errors.Is(err, ErrNotFound) {
		t.ID, t.Status, err = id, mcp.TaskCancelled, nil // a call without a handle, which is forgotten when it ends
	}
	if err == nil && t.Status != mcp.TaskCancelled {
		err = ErrEnded
	}
	return t, err
}
