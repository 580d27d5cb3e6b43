package run

import (
	"context"
	"errors"
	"time"

	"runnel/internal/pause"
	"runnel/partials"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tasks"
)

// retryInterval is the time between two tries to store an end: somebody may make room on the disk meanwhile.
const retryInterval = 5 * time.Second

// storeEnd stores the end of a task and returns the end that may be shown; ours reports whether this process
// has stored it. A result that could not be stored is not shown, since it would be lost with the process: the
// task fails instead, and says why. While another process holds the state the task stays working, and
// storeEnd keeps trying: an hour of work should not be lost to that.
func (r *Runner) storeEnd(run *Run, t tasks.Task) (shown tasks.Task, ours bool) {
	err := r.o.State.Put(context.Background(), t)
	for logged := false; errors.Is(err, tasks.ErrBusy) && t.Status != mcp.TaskCancelled && r.ctx.Err() == nil && !t.Expired(r.o.now()); logged = true {
		if !logged {
			r.o.Log.Warn().Err(err).Str("taskId", t.ID).Str("owner", t.Owner).Msg("end of task waits to be stored")
		}
		pause.For(r.ctx, watchRetry) // a state may refuse at once
		err = r.o.State.Put(context.Background(), t)
	}
	if err == nil {
		return t, true
	}
	if errors.Is(err, tasks.ErrFenced) {
		return r.fencedEnd(t), false
	}
	r.o.Log.Error().Err(err).Str("taskId", t.ID).Str("owner", t.Owner).Msg("end of task not stored")
	if t.Status != mcp.TaskCancelled {
		message := tasks.Clip("the end of the task could not be stored: " + err.Error())
		t.Status = mcp.TaskFailed
		t.StatusMessage = message
		t.Outcome = &tasks.Outcome{Err: rpc.Errorf(mcp.CodeInternalError, "%s", message)}
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
	if !r.Go(again) { // the runner is closed, and waits for the last try as for the run
		r.all.Go(func() { again(r.ctx) })
	}
	return t, false
}

// fencedEnd returns the end that another process has stored for a task of this one. Everyone finds that end
// from now on, so the outcome of this process, which may contradict it, is not shown.
func (r *Runner) fencedEnd(t tasks.Task) tasks.Task {
	came := t.Status
	stored, err := r.o.State.Get(context.Background(), t.Owner, t.ID)
	if err == nil && stored.Status.Terminal() {
		t.Status = stored.Status
		t.StatusMessage = stored.StatusMessage
		t.Outcome = stored.Outcome
	} else {
		message := tasks.ErrFenced.Error() + ", or has deleted it"
		if errors.Is(err, tasks.ErrNotFound) {
			message = lostMessage
		}
		t.Status = mcp.TaskFailed
		t.StatusMessage = message
		t.Outcome = &tasks.Outcome{Err: rpc.Errorf(mcp.CodeInternalError, "%s", message)}
	}
	r.o.Log.Error().Err(tasks.ErrFenced).Str("taskId", t.ID).Str("owner", t.Owner).Str("came", string(came)).Str("stored", string(t.Status)).Msg("end of task not stored")
	return t
}

// retryEnd tries to store an end until that succeeds, and one last time when the runner is closed. If the
// state still refuses, the task fails when it is recovered. It does not stop when the task expires, since the
// stored task is still working. err is the error of the last try.
func (r *Runner) retryEnd(ctx context.Context, run *Run, t tasks.Task, err error) {
	for last := false; !last && !errors.Is(err, tasks.ErrRemoved); { // with ErrRemoved no other try can succeed either
		last = !pause.For(ctx, retryInterval)
		err = r.o.State.Put(context.Background(), t)
		if err == nil {
			run.reportEnd(&t)
		} else if errors.Is(err, tasks.ErrFenced) {
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
	if errors.Is(err, tasks.ErrRemoved) { // no other process will report it
		run.reportEnd(&t)
	}
}

// Settled waits until the end of a run is stored, or the task has expired. It returns ErrRemoved if the end
// can no longer be stored, or the cause of ctx.
// Use it in a process that exits after the task, such as a supervisor.
func (r *Run) Settled(ctx context.Context) error {
	for {
		r.runner.mu.Lock()
		err := r.unstored
		r.runner.mu.Unlock()
		if t := r.Task(); err == nil || t.Expired(r.runner.o.now()) {
			return nil
		} else if errors.Is(err, tasks.ErrRemoved) {
			return err
		}
		if !pause.For(ctx, retryInterval) {
			return context.Cause(ctx)
		}
	}
}

// Each end of a task is reported to Options.Ended of exactly one process, however many share the state:
//
//   - the one that has stored the end: the process that ran the task, or its supervisor (finish, retryEnd);
//   - the one that found the keeper gone, and so has ended the task: a state has an option of its own for that;
//   - the one that has offered the task to workers, as long as it follows the task (Run.follow). A worker reports nothing: the person who waits
//     is elsewhere.
//
// A call without a handle is reported where it runs, unless it is of a kind that always ends soon.

// reportEnd reports the end of a task that this process has ended.
func (r *Run) reportEnd(t *tasks.Task) {
	if (r.spec.Handle || r.spec.Late) && t.Attempt == 0 {
		r.runner.o.Ended(t)
	}
}
