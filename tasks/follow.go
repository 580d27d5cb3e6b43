package tasks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"runnel/rpc/mcp"
)

// A task that another process runs is followed here while somebody wants to see how it goes on or ends: its View is brought up to date by
// the state, and makes its own log grow as the other's does. It is the View of the Run that has detached the task, which goes on to the
// task's end (detach.go), or one of Runner.Follow, which ends with the last who needs it.

// lookAgain is when a task that is followed is looked at again after that has failed.
const lookAgain = 400 * time.Millisecond

// Follow returns the view of a task: the one that there is, or a new one that follows it. It is nil if the task has ended and
// that is stored.
// release must be called in the end.
func (r *Runner) Follow(ctx context.Context, id string) (v *View, release func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if v = r.viewed(id); v == nil {
		r.mu.Unlock()
		t, err := r.o.State.Get(ctx, r.o.Owner, id)
		r.mu.Lock()
		if err != nil || t.Status.Terminal() {
			return nil, func() {}, err
		}
		if v = r.viewed(id); v == nil { // else somebody follows it by now
			t.Log.Follow()
			t.Segments.Follow()
			v = &View{id: id, runner: r, task: t, log: t.Log, segments: t.Segments}
			v.ctx, v.cancel = context.WithCancelCause(r.ctx)
			v.detached.Set()
			r.followed[id] = v
			for _, q := range readNotes(t.Variables).questions {
				q.view, v.open = v, append(v.open, q)
			}
			r.all.Go(v.follow)
		}
	}
	v.following++
	return v, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if v.following--; v.following == 0 && r.followed[id] == v {
			delete(r.followed, id)
			v.cancel(errLeft)
		}
	}, nil
}

// follow returns when the task has ended where it runs, when nobody follows it any more, or when the Runner is closed.
func (v *View) follow() {
	t, err := v.lookOn(nobody{})
	v.cancel(err)
	v.log.Close()
	v.runner.mu.Lock()
	if v.runner.followed[v.id] == v { // else somebody follows it anew
		delete(v.runner.followed, v.id)
	}
	v.runner.mu.Unlock()
	v.mu.Lock()
	v.task = t
	v.mu.Unlock()
	v.ended.Set()
	v.changes.Send()
}

// lookOn brings the view up to date, and announces each change of the status, until the task has ended. It returns the task as it is then,
// or with the cause of the view's context as its error.
func (v *View) lookOn(client Client) (Task, error) {
	defer func() { v.hear(nil, nobody{}) }() // its questions are over
	for failed := false; ; {
		t := v.Task()
		before := t
		switch err := v.runner.o.State.Watch(v.ctx, &t); {
		case errors.Is(err, ErrNotFound): // its ttl is over, and that it ended is forgotten
			t.Status, t.StatusMessage, t.UpdatedAt = mcp.TaskFailed, expiredMessage, time.Now()
			t.Outcome = &Outcome{Result: mcp.ErrorResult("The task's ttl is over.")}
			return t, errExpired
		case v.ctx.Err() != nil:
			t.Outcome = &Outcome{Result: mcp.ErrorResult(errClosed.Error() + "; the task goes on")}
			return t, context.Cause(v.ctx)
		case err != nil:
			if !failed { // a full disk stays full for many looks
				v.runner.o.Log.Warn().Err(err).Str("taskId", v.id).Msg("looking at a task that another process runs")
			}
			failed = true
			select {
			case <-time.After(lookAgain):
			case <-v.ctx.Done():
			}
			continue
		}
		failed = false
		v.mu.Lock()
		if t.UpdatedAt.Before(v.task.UpdatedAt) {
			t.UpdatedAt = v.task.UpdatedAt // by its output, which this process saw before
		}
		t.Progress = v.task.Progress // that of a state is none
		if !t.Status.Terminal() {
			v.task = t
		}
		v.mu.Unlock()
		if t.Status.Terminal() {
			return t, nil
		}
		tell := v.hear(t.Variables, client)
		if t.Status != before.Status || t.Waiting != before.Waiting || t.Waiting && t.StatusMessage != before.StatusMessage {
			client.Status(t.wire(v.runner.o.PollInterval))
			v.changes.Send()
		}
		tell()
	}
}

// Await returns a task when it has ended.
func (r *Runner) Await(ctx context.Context, id string) (Task, error) {
	v, release, err := r.Follow(ctx, id)
	if err != nil {
		return Task{}, err
	}
	defer release()
	return r.await(ctx, id, v)
}

// await is Await for a task whose view is known, nil if the task has ended.
func (r *Runner) await(ctx context.Context, id string, v *View) (Task, error) {
	if v == nil {
		return r.Get(ctx, id)
	}
	select {
	case <-v.Ended():
	case <-ctx.Done():
		return Task{}, context.Cause(ctx)
	}
	t := v.Task()
	switch {
	case !t.Status.Terminal(): // only the following of it has ended, with the Runner, and so does the request
		<-ctx.Done()
		return t, context.Cause(ctx)
	case v.detached.IsSet(): // it may have been forgotten where it ran
		return r.Get(ctx, id)
	case t.Expired(r.o.now()):
		return Task{}, ErrNotFound
	}
	return t, nil
}

// Cancel cancels a task of the owner. It returns the task as it is then, with ErrEnded if it had ended before.
func (r *Runner) Cancel(ctx context.Context, id string) (Task, error) {
	asked := false
	if run := r.running(id); run != nil {
		if !run.endsWithin(ctx, r.o.AskTimeout) {
			return run.Task(), ErrEnding
		}
		if asked = run.Cancel("cancelled by the client"); asked && !run.detached.IsSet() {
			return run.Task(), nil
		}
	}
	t, err := r.Head(ctx, id)
	switch {
	case err != nil:
	case asked && t.Status == mcp.TaskCancelled: // at once: it waited for a worker
	case t.Status.Terminal():
		err = ErrEnded
	default:
		t, err = r.cancelElsewhere(ctx, t)
	}
	return t, err
}

// cancelElsewhere asks for the cancellation of a task that works, and returns the task once it has ended, with ErrEnded if it ended otherwise.
func (r *Runner) cancelElsewhere(ctx context.Context, working Task) (Task, error) {
	id, cancelled := working.ID, working
	cancelled.Status, cancelled.StatusMessage = mcp.TaskCancelled, ""
	outlives := cancelled.Expired(r.o.now()) // its ttl does not end it: a call without a handle
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
		t = cancelled
		if outlives || !t.Expired(r.o.now()) { // else its ttl may have ended it, as failed
			err = nil // a call without a handle, which is forgotten when it ends
		}
	}
	if err == nil && t.Status != mcp.TaskCancelled {
		err = ErrEnded
	}
	return t, err
}
