package tasks

import (
	"context"
	"errors"
	"time"

	"runnel/partials"
	"runnel/rpc"
	"runnel/rpc/mcp"
)

// settleRetry is how often an end that could not be stored is tried again: somebody may make room on the disk.
const settleRetry = 5 * time.Second

// settle stores the end of a task and returns the end that may be shown. A result that could not be stored is not
// shown as one: it would be gone with the process. The task has failed then, and says why. It works on while another
// process holds the state, which each try waits for: the work of an hour is not lost to that.
func (r *Runner) settle(run *Run, t Task) Task {
	err := r.o.State.Put(context.Background(), t)
	for told := false; errors.Is(err, ErrBusy) && t.Status != mcp.TaskCancelled && r.ctx.Err() == nil && !t.Expired(r.o.now()); told = true {
		if !told {
			r.o.Log.Warn().Err(err).Str("taskId", t.ID).Str("owner", t.Owner).Msg("end of task waits to be stored")
		}
		err = r.o.State.Put(context.Background(), t)
	}
	if err == nil {
		return t
	}
	if errors.Is(err, ErrFenced) {
		return r.overruled(t)
	}
	r.o.Log.Error().Err(err).Str("taskId", t.ID).Str("owner", t.Owner).Msg("end of task not stored")
	if t.Status != mcp.TaskCancelled {
		message := Clip("the end of the task could not be stored: " + err.Error())
		t.Status, t.StatusMessage, t.Outcome = mcp.TaskFailed, message, &Outcome{Err: rpc.Errorf(mcp.CodeInternalError, "%s", message)}
	}
	if errors.Is(err, partials.ErrLost) { // without that output it can be stored
		if err = r.o.State.Put(context.Background(), t); err == nil {
			return t
		}
	}
	r.mu.Lock()
	run.unstored = err
	r.mu.Unlock()
	again := func(ctx context.Context) { r.resettle(ctx, run, t, err) }
	if !r.Go(again) { // it is the last try, and is waited for like the run
		r.all.Go(func() { again(r.ctx) })
	}
	return t
}

// overruled returns the end that others have stored for a task that was this process's, which is the only one that anybody
// finds from now on. What the task came to here is not shown: it would contradict that.
func (r *Runner) overruled(t Task) Task {
	came := t.Status
	stored, err := r.o.State.Get(context.Background(), t.Owner, t.ID)
	if err == nil && stored.Status.Terminal() {
		t.Status, t.StatusMessage, t.Outcome = stored.Status, stored.StatusMessage, stored.Outcome
	} else {
		message := ErrFenced.Error() + ", or has deleted it"
		t.Status, t.StatusMessage, t.Outcome = mcp.TaskFailed, message, &Outcome{Err: rpc.Errorf(mcp.CodeInternalError, "%s", message)}
	}
	r.o.Log.Error().Err(ErrFenced).Str("taskId", t.ID).Str("owner", t.Owner).Str("came", string(came)).Str("stored", string(t.Status)).Msg("end of task not stored")
	return t
}

// resettle tries again and again to store an end, until it is stored, and a last time when the runner is closed: what the state still
// refuses then is found failed by whoever recovers the task. That the task has expired is not a reason to stop: what is stored says that
// it works. err is why the last try failed.
func (r *Runner) resettle(ctx context.Context, run *Run, t Task, err error) {
	for last := false; !last && !errors.Is(err, ErrRemoved); { // else no other end can be stored either
		select {
		case <-time.After(settleRetry):
		case <-ctx.Done():
			last = true
		}
		if err = r.o.State.Put(context.Background(), t); errors.Is(err, ErrFenced) {
			err = nil
		}
		r.mu.Lock()
		if run.unstored = err; err == nil {
			delete(r.live, t.ID)
		}
		r.mu.Unlock()
		if err == nil {
			return
		}
	}
}

// Settled returns when the end of a run has been stored or its task has expired, with ErrRemoved when it cannot be any more, or with
// ctx's cause.
func (r *Run) Settled(ctx context.Context) error {
	for {
		r.runner.mu.Lock()
		err := r.unstored
		r.runner.mu.Unlock()
		if t := r.Task(); err == nil || t.Expired(r.runner.o.now()) {
			return nil
		} else if errors.Is(err, ErrRemoved) {
			return err
		}
		select {
		case <-time.After(settleRetry):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
