package tasks

import (
	"context"
	"time"

	"runnel/partials"
	"runnel/rpc/mcp"
)

// Cancel ends the run as cancelled. It reports false if the task had already ended.
// Use Runner.Cancel for a task that another process may run.
func (r *Run) Cancel(message string) bool {
	return r.finish(errCancelled, mcp.TaskCancelled, message, &Outcome{Result: mcp.ErrorResult("The task was cancelled.")})
}

const expiredMessage = "the task's ttl is over"

// expire ends the work of a task whose ttl is over.
func (r *Run) expire() {
	r.finish(errExpired, mcp.TaskFailed, expiredMessage, &Outcome{Result: mcp.ErrorResult("The task's ttl is over.")})
}

// abort ends the run as failed, whatever its work returns.
func (r *Run) abort(why error) {
	r.finish(errClosed, mcp.TaskFailed, why.Error(), &Outcome{Result: mcp.ErrorResult(why.Error())})
}

// abortReason returns the reason why the task ends as failed whatever its work returned, nil if there is none.
func (r *Run) abortReason() error {
	if err := r.log.Failed(); err != nil {
		return err
	}
	if r.runner.ctx.Err() != nil {
		return errClosed
	}
	return nil
}

// finish moves the task to a terminal status. cause is why it is cut off, nil if its work has returned. If somebody else ends the task
// first, finish waits for that end and reports false.
func (r *Run) finish(cause error, status mcp.TaskStatus, message string, outcome *Outcome) bool {
	switch first, away := r.claimEnd(status); {
	case away:
		return r.cancelRemote(cause)
	case !first:
		<-r.ended.Done()
		return false
	}
	if cause != nil { // the work may still be running: requests for segments now learn that this is the end
		r.segments.Finish(partials.Ending{Rest: outcome.Result.Content, IsError: outcome.Result.IsError})
	}
	if cause != nil && cause != errCancelled { // "Receivers SHOULD stop emitting partial notifications as soon as a task is marked as cancelled" (SEP-2679)
		r.cancel(cause)
		r.deliverRest()
	}
	r.stop(cause)
	r.changing.Lock() // only now: the holder of the door may wait for what stop ends
	defer r.changing.Unlock()
	r.mu.Lock()
	t, handle := r.task, r.handle
	r.mu.Unlock()
	if cause != nil && handle {
		outcome.Result.Content = append(lastOutput(context.Background(), r.log), outcome.Result.Content...)
	}
	t.Status, t.StatusMessage, t.Outcome, t.UpdatedAt = status, clip(r.secrets.String(message)), outcome, time.Now()
	ours := true
	if handle {
		r.storeTimes(&t)
		// The outcome is stored before the terminal status is visible.
		t, ours = r.runner.storeEnd(r, t)
	} else if r.hidden {
		r.deleteSpilled(&t)
	}
	r.announceEnd(t, handle)
	if ours {
		r.reportEnd(&t)
	}
	return true
}

// claimEnd makes its first caller the one that ends the task, unless another process runs it (away).
func (r *Run) claimEnd(status mcp.TaskStatus) (first, away bool) {
	r.handover.Lock()
	defer r.handover.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.finishing || r.detached.IsSet() {
		return false, !r.finishing
	}
	if err := checkMove(r.task.Status, status); err != nil {
		panic("internal error: " + err.Error())
	}
	r.finishing = true
	for _, t := range []*time.Timer{r.sampleTimer, r.hideTimer} {
		if t != nil {
			t.Stop()
		}
	}
	return true, false
}

// cancelRemote is finish for a task that another process runs. It asks that process to cancel the task, and reports whether it could ask. At
// the ttl that process stops the task and stores its end. The end of this process does not end the task; do sees that for itself.
func (r *Run) cancelRemote(cause error) bool {
	if r.worked.IsSet() && (cause == errCancelled || cause == errExpired) {
		r.cancel(cause) // the task has ended there, and only the delivery of its output is still going on here
	}
	if cause != errCancelled {
		return false
	}
	err := r.runner.o.State.Ask(context.Background(), r.runner.o.Owner, r.id)
	if err != nil {
		r.runner.o.Log.Error().Err(err).Str("taskId", r.id).Msg("a detached task could not be cancelled")
	}
	return err == nil
}

// stop ends the deliveries, the work's context and the log. finishing is set.
func (r *Run) stop(cause error) {
	<-r.begun.Done() // whoever finds the task in the state may end it before Start returns
	// "Receivers MUST NOT send notifications/tasks/partial after the task reaches a terminal status" (SEP-2679, 1.3.2)
	r.spec.Client.Silence()
	r.cancel(cause)
	r.log.Close()
}

// announceEnd sets the task's last state to t, and announces it. The door is held.
func (r *Run) announceEnd(t Task, handle bool) {
	r.end(t)
	over := t.Status.Terminal() // otherwise it goes on in another process
	if over {
		r.spec.Client.Status(t.wire(r.runner.o.PollInterval))
	}
	if handle {
		r.runner.forget(r)
	}
	if handle && over && !r.gaveBack() {
		r.runner.recordEnded(&t)
	}
	r.ended.Set()
	r.changes.Send()
}

// endsWithin waits for an end that is being stored. It reports false if that takes too long.
func (r *Run) endsWithin(ctx context.Context, limit time.Duration) bool {
	r.mu.Lock()
	finishing := r.finishing
	r.mu.Unlock()
	if !finishing {
		return true
	}
	ctx, stop := context.WithTimeout(ctx, limit)
	defer stop()
	select {
	case <-r.ended.Done():
		return true
	case <-ctx.Done():
		return false
	}
}

// forget removes a run from the live ones. Its door is held.
func (r *Runner) forget(run *Run) {
	if run.expiryTimer != nil {
		run.expiryTimer.Stop()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if run.unstored == nil { // otherwise it is found only here
		delete(r.live, run.id)
	}
}

// unhide removes a run from the hidden ones: it has a handle now, or has ended. The door is held.
func (r *Run) unhide() {
	r.hidden = false
	r.runner.mu.Lock()
	defer r.runner.mu.Unlock()
	delete(r.runner.hidden, r.id)
}

// deleteSpilled deletes what the state kept of a run that has ended without a handle. The door is held.
func (r *Run) deleteSpilled(t *Task) {
	r.unhide()
	if err := r.runner.o.State.Delete(context.Background(), t.Owner, t.ID); err != nil {
		r.runner.o.Log.Warn().Err(err).Str("taskId", r.id).Msg("deleting the stored output of a call")
	}
}
