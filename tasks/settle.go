package tasks

import (
	"context"
	"errors"
	"time"

	"runnel/partials"
	"runnel/rpc"
	"runnel/rpc/mcp"
)

// retryInterval is the time between two attempts to store an end: somebody may make room on the disk meanwhile.
const retryInterval = 5 * time.Second

// settle stores the end of a task and returns the end that may be shown. ours: it is stored, by this process. A result that could not be
// stored is not shown, since it would be lost with the process: the task fails instead, and says why. While another process holds the state
// the task keeps working, and settle keeps trying: an hour of work should not be lost to that.
func (r *Runner) storeEnd(run *Run, t Task) (shown Task, ours bool) {
	err := r.o.State.Put(context.Background(), t)
	for told := false; errors.Is(err, ErrBusy) && t.Status != mcp.TaskCancelled && r.ctx.Err() == nil && !t.Expired(r.o.now()); told = true {
		if !told {
			r.o.Log.Warn().Err(err).Str("taskId", t.ID).Str("owner", t.Owner).Msg("end of task waits to be stored")
		}
		err = r.o.State.Put(context.Background(), t)
	}
	if err == nil {
		return t, true
	}
	if errors.Is(err, ErrFenced) {
		return r.fencedEnd(t), false
	}
	r.o.Log.Error().Err(err).Str("taskId", t.ID).Str("owner", t.Owner).Msg("end of task not stored")
	if t.Status != mcp.TaskCancelled {
		message := clip("the end of the task could not be stored: " + err.Error())
		t.Status, t.StatusMessage, t.Outcome = mcp.TaskFailed, message, &Outcome{Err: rpc.Errorf(mcp.CodeInternalError, "%s", message)}
	}
	if errors.Is(err, partials.ErrLost) { // it can be stored without that output
		if err = r.o.State.Put(context.Background(), t); err == nil {
			return t, true
		}
	}
	r.mu.Lock()
	run.unstored = err
	r.mu.Unlock()
	again := func(ctx context.Context) { r.retryEnd(ctx, run, t, err) }
	if !r.Go(again) { // this is the last try, which is waited for like the run
		r.all.Go(func() { again(r.ctx) })
	}
	return t, false
}

// fencedEnd returns the end that others have stored for a task of this process, which is the one that everybody finds from now on. The
// outcome here is not shown, because it would contradict that.
func (r *Runner) fencedEnd(t Task) Task {
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

// retryEnd keeps trying to store an end until it succeeds, and one last time when the runner is closed. If the state still refuses, whoever
// recovers the task finds it failed. It does not stop when the task expires, since the stored task still says that it works. err is the
// error of the last try.
func (r *Runner) retryEnd(ctx context.Context, run *Run, t Task, err error) {
	for last := false; !last && !errors.Is(err, ErrRemoved); { // with ErrRemoved no other try can succeed either
		last = !pause(ctx, retryInterval)
		err = r.o.State.Put(context.Background(), t)
		if err == nil {
			run.reportEnd(&t)
		} else if errors.Is(err, ErrFenced) {
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
	if errors.Is(err, ErrRemoved) { // nobody else will ever find it
		run.reportEnd(&t)
	}
}

// Settled returns nil when the end of a run has been stored or its task has expired, ErrRemoved when it can no longer be stored, or the
// cause of ctx.
// Use it in a process that exits after the task, such as a supervisor.
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
		if !pause(ctx, retryInterval) {
			return context.Cause(ctx)
		}
	}
}
