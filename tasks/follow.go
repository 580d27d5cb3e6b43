package tasks

import (
	"context"
	"errors"
	"time"

	"runnel/rpc/mcp"
)

// A task that another process runs is followed here while somebody wants its output as it comes: its Run looks into the store,
// again and again, and makes its own log grow as the other's does. It is the Run that has detached the task, which goes on to the
// task's end, or one of Runner.Follow, which ends with the last who needs it. Who only waits for the end needs no Run (elsewhere.go).

const (
	// lookFirst and lookMost are how often the store is looked at for a task that is followed: soon while output comes, then less.
	lookFirst = 50 * time.Millisecond
	lookMost  = 400 * time.Millisecond
)

// errLeft is why a run ends that nobody follows any more.
var errLeft = errors.New("not followed any more")

// Follow returns the run of a task: the one that there is, or a new one that follows it. It is nil if the task has ended.
// release must be called in the end.
func (r *Runner) Follow(ctx context.Context, id string) (run *Run, release func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if run = r.live[id]; run == nil {
		r.mu.Unlock()
		t, err := r.followable(ctx, id)
		r.mu.Lock()
		if err != nil || t.Log == nil {
			return nil, func() {}, err
		}
		if run = r.live[id]; run == nil { // else somebody follows it by now
			run = r.startFollower(t)
		}
	}
	run.following++
	return run, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if run.following--; run.following == 0 && run.follower {
			r.drop(run)
			run.ctx.Cancel(errLeft)
		}
	}, nil
}

// startFollower makes the run of a task that was never run here. r.mu is held.
func (r *Runner) startFollower(t Task) *Run {
	run := r.newRun(Spec{Tool: t.Tool, Handle: true}, t)
	run.follower = true
	run.owed = 0 // there may be none
	run.detached.Set()
	r.live[t.ID] = run
	r.all.Go(run.follow)
	return run
}

// followable is a task that another process runs, with a log that can grow; without one if it has ended.
func (r *Runner) followable(ctx context.Context, id string) (Task, error) {
	shared, ok := r.o.Store.(Shared)
	if _, unstored := r.unstored(id); !ok || unstored {
		return Task{}, nil
	}
	return shared.Follow(ctx, r.o.Owner, id)
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
	shared := r.runner.o.Store.(Shared)
	failed := false
	for wait := lookFirst; ; {
		t := r.Task()
		select {
		case <-time.After(wait):
		case <-r.ctx.Done():
			return t, context.Cause(&r.ctx)
		}
		before, size := t, r.log.Size()
		switch err := shared.Look(&r.ctx, &t); {
		case errors.Is(err, ErrNotFound):
			return t, err
		case r.ctx.Err() != nil:
			return t, context.Cause(&r.ctx)
		case err != nil:
			if !failed { // a full disk stays full for many looks
				r.runner.o.Log.Warn().Err(err).Str("taskId", r.id).Msg("looking at a task that another process runs")
			}
			failed, wait = true, lookMost
			continue
		case t.Status.Terminal():
			return t, nil
		}
		failed = false
		if wait = min(2*wait, lookMost); r.log.Size() > size {
			wait = lookFirst
		}
		r.mu.Lock()
		t.Merge = t.Merge || r.task.Merge
		if t.UpdatedAt.Before(r.task.UpdatedAt) {
			t.UpdatedAt = r.task.UpdatedAt // by its output
		}
		r.task = t
		r.mu.Unlock()
		if t.Status != before.Status {
			if r.spec.Status != nil {
				r.spec.Status(t.wire(r.runner.o.PollInterval))
			}
			r.changes.Send()
		}
	}
}
