package tasks

import (
	"context"
	"errors"
	"maps"
	"slices"
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
func (r *Runner) settle(t Task) Task {
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
	r.unsettled[t.ID] = t
	r.mu.Unlock()
	r.resettleLater(t.ID, err)
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

// resettleLater lets an end that could not be stored be tried again, unless no end can be stored any more.
func (r *Runner) resettleLater(id string, err error) {
	if errors.Is(err, ErrRemoved) {
		r.mu.Lock()
		r.lost = err
		r.mu.Unlock()
		return
	}
	time.AfterFunc(settleRetry, func() { r.resettle(id) })
}

// resettle tries again to store an end, until it is stored, the task has expired or the runner is closed.
func (r *Runner) resettle(id string) {
	r.mu.Lock()
	t, ok := r.unsettled[id]
	r.mu.Unlock()
	if !ok || r.ctx.Err() != nil {
		return
	}
	if err := r.o.State.Put(context.Background(), t); err != nil && !errors.Is(err, ErrFenced) && !t.Expired(r.o.now()) {
		r.resettleLater(id, err)
		return
	}
	r.mu.Lock()
	delete(r.unsettled, id)
	r.mu.Unlock()
}

// settleLast tries a last time to store the ends that could not be stored. What the state still refuses then is found failed by whoever
// recovers the task.
func (r *Runner) settleLast() {
	r.mu.Lock()
	left := slices.Collect(maps.Values(r.unsettled))
	r.mu.Unlock()
	for _, t := range left {
		if err := r.o.State.Put(context.Background(), t); err != nil && !errors.Is(err, ErrFenced) {
			return // nor would it take the others
		}
	}
}

// unstored returns a task whose end is known here only.
func (r *Runner) unstored(id string) (Task, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t, ok := r.unsettled[id]
	return t, ok && !t.Expired(r.o.now())
}

// Settled returns when every end has been stored, with ErrRemoved when none can be any more, or with ctx's cause.
func (r *Runner) Settled(ctx context.Context) error {
	for {
		r.mu.Lock()
		left, lost := len(r.unsettled), r.lost
		r.mu.Unlock()
		if left == 0 || lost != nil {
			return lost
		}
		select {
		case <-time.After(settleRetry):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
