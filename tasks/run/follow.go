package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"runnel/internal/pause"
	"runnel/internal/shorten"
	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tools/text"
)

// This process follows a task that another process runs while it is wanted here: the state keeps its View up
// to date, and the View's own log grows as that of the other process does. The View belongs either to the Run
// that has detached the task (detach.go), and lasts until the task's end, or to Runner.Follow, and lasts
// until its last follower releases it.

// watchRetry is the time between two tries to read what other processes have stored.
const watchRetry = 400 * time.Millisecond

// Follow returns the view of a task: that of this process, or a new one that follows the task. The view is
// nil if the task has ended and its end is stored. The caller must call release when done.
func (r *Runner) Follow(ctx context.Context, id string) (v *View, release func(), err error) {
	if tasks.IsFiles(id) {
		return nil, func() {}, tasks.ErrNotFound
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if v = r.viewLocked(id); v == nil {
		r.mu.Unlock()
		t, err := r.store.Get(ctx, id)
		r.mu.Lock()
		if err != nil || t.Status.Terminal() {
			return nil, func() {}, err
		}
		if v = r.viewLocked(id); v == nil { // otherwise another caller follows it by now
			t.Log.Follow()
			t.Segments.Follow()
			showNotes(&t)
			v = &View{id: id, runner: r, task: t, log: t.Log, segments: t.Segments}
			v.setMatches(t.Matches)
			v.ctx, v.cancel = context.WithCancelCause(r.ctx)
			v.phase = running
			v.place = away
			v.detached.Set()
			r.followed[id] = v
			for _, q := range readNotes(t.Variables, t.Attempt).questions {
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
			v.cancel(errUnfollowed)
		}
	}, nil
}

// follow keeps the view up to date until the task has ended where it runs, no one follows it any more, or the
// Runner is closed.
func (v *View) follow() {
	t, err := v.watchUntilEnd(noClient{})
	v.cancel(err)
	v.log.Close()
	v.runner.mu.Lock()
	if v.runner.followed[v.id] == v { // otherwise it has been released, and may be followed again
		delete(v.runner.followed, v.id)
	}
	v.runner.mu.Unlock()
	v.setEnd(t, ended)
	v.changes.Send()
}

// watchUntilEnd keeps the view up to date, and announces each change of the status, until the task has ended.
// It returns the task's last state, with the cause of the view's context if that ends first.
func (v *View) watchUntilEnd(client Client) (tasks.Task, error) {
	defer v.applyNotes(nil) // closes its questions
	for {
		t := v.Task()
		before := t
		switch err := v.runner.watchStored(v.ctx, &t); {
		case errors.Is(err, tasks.ErrNotFound): // the state has forgotten it
			message, cause := expiredMessage, errExpired
			if !t.Expired(v.runner.o.now()) {
				message, cause = lostMessage, errLost
			}
			t.Status, t.StatusMessage = mcp.TaskFailed, message
			t.UpdatedAt = time.Now()
			t.Outcome = &tasks.Outcome{Result: mcp.ErrorResult(message)}
			return t, cause
		case err != nil:
			t.Outcome = &tasks.Outcome{Result: mcp.ErrorResult("runnel was stopped; the task goes on")}
			return t, err
		}
		v.mu.Lock()
		if t.UpdatedAt.Before(v.task.UpdatedAt) {
			t.UpdatedAt = v.task.UpdatedAt // this process has seen newer output
		}
		// The state keeps those as notes.
		t.Progress, t.Times, t.Matches = v.task.Progress, v.task.Times, v.task.Matches
		t.Password = v.task.Password
		if !t.Status.Terminal() {
			v.task = t
		}
		v.mu.Unlock()
		asked, progress, matched := v.applyNotes(t.Variables)
		if t.Status.Terminal() {
			t.Matches = v.Task().Matches
			return t, nil
		}
		if matched {
			v.announceMatches(client)
			if now := v.Task(); v.place == offered && v.runner.o.Matched != nil &&
				now.Matches.Told() > before.Matches.Told() {
				v.runner.o.Matched(&now) // a worker reports nothing
			}
		} else if t.Status != before.Status || t.Waiting != before.Waiting ||
			t.Waiting && t.StatusMessage != before.StatusMessage {
			client.Status(t.Wire(v.runner.o.PollInterval))
			v.changes.Send()
		}
		v.passOn(client, asked, progress)
	}
}

// watchStored is Shared.Watch, and again while that fails. It returns ErrNotFound or the cause of ctx.
func (r *Runner) watchStored(ctx context.Context, t *tasks.Task) error {
	if r.shared == nil {
		return tasks.ErrNotFound
	}
	return r.retryWatch(ctx, t.ID, func() error { return r.shared.Watch(ctx, t) })
}

// retryWatch calls read, which reads what other processes have stored about a task, until it succeeds. It
// returns ErrNotFound or the cause of ctx.
func (r *Runner) retryWatch(ctx context.Context, id string, read func() error) error {
	for failed := false; ; failed = true {
		err := read()
		if err == nil || errors.Is(err, tasks.ErrNotFound) {
			return err
		}
		if !failed && ctx.Err() == nil { // a full disk stays full for many tries
			r.o.Log.Warn().Err(err).Str("taskId", id).Msg("reading a task that another process changes")
		}
		if !pause.For(ctx, watchRetry) {
			return context.Cause(ctx)
		}
	}
}

// Await waits until a task has ended, and returns it. A task that is forgotten as it ends, since its ttl is
// over, comes with ErrNotFound; it says how it ended.
// Use it where only the result matters, and Follow where the output does.
func (r *Runner) Await(ctx context.Context, id string) (tasks.Task, error) {
	v, release, err := r.Follow(ctx, id)
	if err != nil {
		return tasks.Task{}, err
	}
	defer release()
	return r.AwaitView(ctx, id, v)
}

// AwaitView is Await with a view from Follow, which is nil if the task has ended.
func (r *Runner) AwaitView(ctx context.Context, id string, v *View) (tasks.Task, error) {
	if v == nil {
		return r.Get(ctx, id)
	}
	select {
	case <-v.Ended():
	case <-ctx.Done():
		return tasks.Task{}, context.Cause(ctx)
	}
	t := v.Task()
	switch {
	case !t.Status.Terminal(): // the Runner is closed, and the request ends, too
		<-ctx.Done()
		return t, context.Cause(ctx)
	case v.away():
		if run := r.Running(id); run != nil && &run.View != v { // this process has taken it since
			return r.AwaitView(ctx, id, &run.View)
		}
		stored, err := r.Get(ctx, id)
		if errors.Is(err, tasks.ErrNotFound) { // the process that ran it may have forgotten it
			return t, err
		}
		return stored, err
	case t.Expired(r.o.now()):
		return t, tasks.ErrNotFound
	}
	return t, nil
}

// Cancel cancels a task of the owner, wherever it runs. It returns the task as it then is, with ErrEnded if
// it had ended before.
func (r *Runner) Cancel(ctx context.Context, id string) (tasks.Task, error) {
	return r.CancelWithReason(ctx, id, "")
}

// maxReason is how much of a client's reason is kept, in bytes.
const maxReason = 200

// CancelWithReason is Cancel with the client's reason, or "". The reason is not passed to other processes.
func (r *Runner) CancelWithReason(ctx context.Context, id, reason string) (tasks.Task, error) {
	message := "cancelled by the client"
	if reason != "" {
		// Hosts show it as it is.
		message += ": " + shorten.Clip(text.Printable(shorten.Cut(reason, 4*maxReason)), maxReason)
	}
	asked := false
	if run := r.Running(id); run != nil {
		if !run.endsWithin(ctx, r.o.AskTimeout) {
			return run.Task(), tasks.ErrEnding
		}
		if asked = run.Cancel(message); asked && !run.away() {
			return run.Task(), nil
		}
	}
	t, err := r.Head(ctx, id)
	switch {
	case err != nil:
	case asked && t.Status == mcp.TaskCancelled: // a task that waited for a worker ends at once
	case t.Status.Terminal():
		err = tasks.ErrEnded
	default:
		t, err = r.cancelElsewhere(ctx, t)
	}
	if t.Status == mcp.TaskCancelled { // also one that had ended before: its canceller may have died
		r.CancelBegun(ctx, t.Variables)
	}
	return t, err
}

// CancelBegun cancels the tasks that a work has begun, as its notes say, wherever they run, and waits for
// that. Those that have ended stay as they are.
func (r *Runner) CancelBegun(ctx context.Context, variables json.RawMessage) {
	var all sync.WaitGroup
	for _, id := range tasks.Begun(variables) {
		all.Go(func() {
			_, err := r.Cancel(ctx, id)
			if err != nil && !errors.Is(err, tasks.ErrEnded) && !errors.Is(err, tasks.ErrNotFound) {
				r.o.Log.Warn().Err(err).Str("taskId", id).
					Msg("the task that has begun this one is cancelled, but this one is not")
			}
		})
	}
	all.Wait()
}

// cancelElsewhere asks another process to cancel a task, and returns the task once it has ended, with
// ErrEnded if it ended in another way.
func (r *Runner) cancelElsewhere(ctx context.Context, working tasks.Task) (tasks.Task, error) {
	if r.shared == nil {
		return tasks.Task{}, tasks.ErrNotFound
	}
	id, cancelled := working.ID, working
	cancelled.Status, cancelled.StatusMessage = mcp.TaskCancelled, ""
	// A call without a handle may outlive its ttl, and is deleted when it ends. Those on workers are not
	// hidden.
	deleted := working.Hidden || working.Worker != "" && cancelled.Expired(r.o.now())
	if err := r.shared.Ask(ctx, id); err != nil {
		return tasks.Task{}, err
	}
	// Measured from here: asking may have waited for the state.
	wait, cancel := context.WithTimeout(ctx, r.o.AskTimeout)
	defer cancel()
	t, err := r.Await(wait, id)
	if err != nil && ctx.Err() == nil && wait.Err() != nil {
		return t, fmt.Errorf("%w in %v", tasks.ErrAsked, r.o.AskTimeout)
	}
	if errors.Is(err, tasks.ErrNotFound) {
		t = cancelled
		if deleted || !t.Expired(r.o.now()) { // otherwise its ttl may have ended it, as failed
			err = nil
		}
	}
	if err == nil && t.Status != mcp.TaskCancelled {
		err = tasks.ErrEnded
	}
	return t, err
}

// Tail passes a task's output after a position to write: what there is and, with follow, what comes until the
// task has ended. Where output is no longer kept, Batch.Start is after the End of the batch before. It
// returns the task as it then is, or the error of write.
func (r *Runner) Tail(ctx context.Context, id string, after int64, follow bool,
	write func(partials.Batch) error) (tasks.Task, error) {
	if follow {
		v, release, err := r.Follow(ctx, id)
		if err != nil {
			return tasks.Task{}, err
		}
		defer release()
		for v != nil && v.Log().Grown(ctx, after) == nil {
			if after, err = tasks.Tail(ctx, v.Log(), after, write); err != nil {
				return v.Task(), err
			}
		}
		if v != nil && ctx.Err() == nil {
			select {
			case <-v.Ended():
			case <-ctx.Done():
			}
		}
		if ctx.Err() != nil {
			return tasks.Task{ID: id}, context.Cause(ctx)
		}
	}
	t, err := r.Head(ctx, id)
	if err == nil {
		_, err = tasks.Tail(ctx, t.Log, after, write)
	}
	return t, err
}
