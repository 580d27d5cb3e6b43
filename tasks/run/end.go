package run

import (
	"context"
	"errors"
	"math"
	"time"

	"runnel/internal/pause"
	"runnel/partials"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tasks"
)

// Cancel ends the run as cancelled, and reports false if the task had already ended.
// Use Runner.Cancel for a task that another process may run.
func (r *Run) Cancel(message string) bool {
	return r.finish(errCancelled, mcp.TaskCancelled, message,
		&tasks.Outcome{Result: mcp.ErrorResult("The task was cancelled.")})
}

const expiredMessage = "the task's ttl is over (the request, the tool's timeout or tasks.ttl of the " +
	"config sets it)"

// lostMessage is that of a task that its state has forgotten before its ttl was over.
const lostMessage = "the state no longer has the task: it was deleted there, or a server has lost what it " +
	"had stored"

// expire ends the run when its ttl is over.
func (r *Run) expire() {
	r.finish(errExpired, mcp.TaskFailed, expiredMessage,
		&tasks.Outcome{Result: mcp.ErrorResult(expiredMessage)})
}

// abort ends the run as failed. The result of its work does not count.
func (r *Run) abort(why error) {
	if why == errClosed && r.resumes() {
		r.leave()
		return
	}
	r.finish(errClosed, mcp.TaskFailed, why.Error(),
		&tasks.Outcome{Result: mcp.ErrorResult(why.Error()), Interrupted: why == errClosed})
}

// abortReason returns why the result of the work must not count, nil if it may.
func (r *Run) abortReason() error {
	if err := r.log.Failed(); err != nil {
		return err
	}
	if r.runner.ctx.Err() != nil {
		return errClosed
	}
	return nil
}

// finish moves the task to a terminal status. cause is why the run ends early, nil if its work has returned.
// If another call ends the task first, finish waits for that end and reports false.
func (r *Run) finish(cause error, status mcp.TaskStatus, message string, outcome *tasks.Outcome) bool {
	switch first, isAway := r.claimEnd(status); {
	case isAway:
		return r.cancelRemote(cause)
	case !first:
		<-r.Ended()
		return false
	}
	if cause != nil { // the work may still be running: requests for segments now learn that this is the end
		r.segments.Finish(partials.Ending{Rest: outcome.Result.Content, IsError: outcome.Result.IsError})
	}
	// "Receivers SHOULD stop emitting partial notifications as soon as a task is marked as cancelled"
	// (SEP-2679).
	if cause != nil && cause != errCancelled {
		r.cancel(cause)
		r.deliverRest()
	}
	// "Receivers MUST NOT send notifications/tasks/partial after the task reaches a terminal status"
	// (SEP-2679, 1.3.2)
	r.spec.Client.Silence()
	r.cancel(cause)
	if cause != nil {
		r.log.Close() // otherwise workReturned has closed it
	}
	r.changing.Lock() // only now: its holder may wait for what stop ends
	defer r.changing.Unlock()
	r.mu.Lock()
	t, has := r.task, r.kept
	r.mu.Unlock()
	if cause != nil && has == handle {
		outcome.Result.Content = append(tasks.LastOutput(context.Background(), r.log),
			outcome.Result.Content...)
	}
	t.Status = status
	if message == "" && t.Matches.Message() != "" {
		message = t.Matches.Message()
	} else {
		message = r.secrets.String(message)
	}
	t.StatusMessage = tasks.Clip(message)
	t.Outcome = outcome
	t.UpdatedAt = time.Now()
	ours := true
	if has == handle {
		r.storeTimes(&t)
		// The outcome is stored before the terminal status is visible.
		t, ours = r.runner.storeEnd(r, t)
	} else {
		r.endWithoutHandle(t, has == hidden)
	}
	r.announceEnd(t, has == handle)
	if ours {
		r.reportEnd(&t)
	}
	return true
}

// claimEnd reports whether its caller is the first, which then ends the task, and whether the task is away,
// where it ends. Another process may find the task in the state and end it before Start returns; and while
// the task is being handed over, it is not known who may end it.
func (r *Run) claimEnd(status mcp.TaskStatus) (first, isAway bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.phase == starting || r.place == handing {
		r.settled.Wait()
	}
	switch {
	case r.phase >= ending:
		return false, false
	case r.place >= away:
		return false, true
	}
	if err := tasks.CheckMove(r.task.Status, status); err != nil {
		panic("internal error: " + err.Error())
	}
	r.setPhase(ending)
	for _, t := range []*time.Timer{r.sampler.timer, r.hideTimer, r.matching.timer} {
		if t != nil {
			t.Stop()
		}
	}
	return true, false
}

// cancelRemote is finish for a task that another process runs. If the cause is a cancel, it asks that process
// to cancel the task, and reports whether it could ask. At the ttl that process ends the task by itself. The
// end of this process does not end the task.
func (r *Run) cancelRemote(cause error) bool {
	if r.past(draining) && (cause == errCancelled || cause == errExpired) {
		r.cancel(cause) // the task has ended there, and only its output is still being delivered here
	}
	if cause != errCancelled {
		return false
	}
	err := r.runner.shared.Ask(context.Background(), r.id)
	if err != nil {
		r.runner.o.Log.Error().Err(err).Str("taskId", r.id).Msg("a detached task could not be cancelled")
	}
	return err == nil
}

// announceEnd sets the task's last state to t, and announces it. changing is held.
func (r *Run) announceEnd(t tasks.Task, hasHandle bool) {
	if hasHandle { // otherwise no client knows the task, and no answer can show it
		r.setEnd(t, ending)
		over := t.Status.Terminal() // otherwise another process still runs it
		if over {
			r.spec.Client.Status(t.Wire(r.runner.o.PollInterval))
		}
		r.runner.forget(r)
		if over && !r.gaveBack() {
			r.runner.recordEnded(&t)
		}
	}
	r.mu.Lock()
	r.task = t
	r.setPhase(ended)
	r.mu.Unlock()
	r.changes.Send()
}

// endsWithin waits for the end of a run that is being stored, and reports false if that takes too long.
func (r *Run) endsWithin(ctx context.Context, limit time.Duration) bool {
	if !r.past(ending) {
		return true
	}
	ctx, stop := context.WithTimeout(ctx, limit)
	defer stop()
	select {
	case <-r.Ended():
		return true
	case <-ctx.Done():
		return false
	}
}

// forget removes a run from the live ones. Its lock changing is held.
func (r *Runner) forget(run *Run) {
	if run.expiryTimer != nil {
		run.expiryTimer.Stop()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if run.unstored == nil { // otherwise its end can be found only here
		delete(r.live, run.id)
	}
}

// unhide removes a run from the hidden ones: it has a handle now, or has ended.
func (r *Runner) unhide(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.hidden, id)
}

// These are the reasons why a run ends before its work has returned.
var (
	errCancelled  = errors.New("cancelled")
	errExpired    = errors.New("expired")
	errClosed     = errors.New(tasks.StoppedMessage)
	errUnfollowed = errors.New("not followed any more")
	errLost       = errors.New("the state has lost the task")
)

// Only the wall clock decides whether a ttl is over: the end of the ttl is in the state, the same for all
// processes. Go's timers, and comparisons with a time that time.Now has just returned, use the monotonic
// clock, which may stand still while the machine sleeps. So Task.Expired avoids it, and an alarm keeps
// looking at the wall clock.

// wakeInterval is how late an alarm may be after the machine has slept.
const wakeInterval = time.Second

// setAlarm calls f, in a goroutine, when the clock now is past a time. If the timer is stopped just while the
// alarm sets it again, over ends the alarm.
func setAlarm(now func() time.Time, when time.Time, over func() bool, f func()) *time.Timer {
	left := func() time.Duration { return min(when.Round(0).Sub(now()), wakeInterval) }
	var t *time.Timer
	t = time.AfterFunc(math.MaxInt64, func() {
		switch d := left(); {
		case over():
		case d > 0:
			t.Reset(d)
		default:
			f()
		}
	})
	t.Reset(left())
	return t
}

// retryInterval is the time between two tries to store an end: the disk may have room by then.
const retryInterval = 5 * time.Second

// storeEnd stores the end of a task and returns the end that may be shown; ours reports whether this process
// has stored it. A result that could not be stored is not shown, since it would be lost with the process: the
// task fails instead, and says why. While another process holds the state the task stays working, and
// storeEnd keeps trying: an hour of work should not be lost to that.
func (r *Runner) storeEnd(run *Run, t tasks.Task) (shown tasks.Task, ours bool) {
	err := r.store.Put(context.Background(), t)
	for logged := false; errors.Is(err, tasks.ErrBusy) && t.Status != mcp.TaskCancelled &&
		r.ctx.Err() == nil && !t.Expired(r.o.now()); logged = true {
		if !logged {
			r.o.Log.Warn().Err(err).Str("taskId", t.ID).Str("owner", t.Owner).
				Msg("end of task waits to be stored")
		}
		pause.For(r.ctx, watchRetry) // a state may refuse at once
		err = r.store.Put(context.Background(), t)
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
		if err = r.store.Put(context.Background(), t); err == nil {
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
	stored, err := r.store.Get(context.Background(), t.ID)
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
	r.o.Log.Error().Err(tasks.ErrFenced).Str("taskId", t.ID).Str("owner", t.Owner).Str("came", string(came)).
		Str("stored", string(t.Status)).Msg("end of task not stored")
	return t
}

// retryEnd tries to store an end until that succeeds, and one last time when the runner is closed. If the
// state still refuses, the task fails when it is recovered. It does not stop when the task expires, since the
// stored task is still working. err is the error of the last try.
func (r *Runner) retryEnd(ctx context.Context, run *Run, t tasks.Task, err error) {
	// After ErrRemoved no other try can succeed.
	for last := false; !last && !errors.Is(err, tasks.ErrRemoved); {
		last = !pause.For(ctx, retryInterval)
		err = r.store.Put(context.Background(), t)
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
