package tasks

import (
	"context"

	"runnel/rpc/mcp"
)

// A detached task outlives the process that started it: another one, its supervisor, takes it and runs it. Both have a Run of it:
// that of the supervisor (Runner.Take) is one like any other; that of the process which started it (Run.Detach) follows the task
// from then on.

// Detach hands the task to another process; the work calls it before it has written anything to the log. start starts that
// process, and returns when it has taken the task (Runner.Take), or why it has not. When Detach has returned nil, the work must
// return, no matter what: the Run follows the task then.
func (r *Run) Detach(ctx context.Context, start func() error) error {
	if err := r.Promote(ctx); err != nil {
		return err
	}
	// Until it is known who runs the task nobody ends it, for handing, or changes it, for the door.
	r.handing.Lock()
	defer r.handing.Unlock()
	r.door.Lock()
	defer r.door.Unlock()
	r.mu.Lock()
	finishing := r.finishing
	r.mu.Unlock()
	if finishing {
		return ErrEnded
	}
	err := start()
	taken, unknown := r.runner.o.State.Taken(context.WithoutCancel(ctx), r.id)
	if unknown != nil { // the state cannot be asked
		taken = err == nil
	}
	if taken {
		r.log.Follow()
		r.segments.Follow()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !taken {
		return err
	}
	r.task.Detached = true
	r.detached.Set()
	return nil
}

// follow ends the run when the task has ended where it runs, or when the Runner is closed.
func (r *Run) follow() {
	t, err := r.lookOn(r.spec.Client)
	delivered := t.Status.Terminal() && t.Status != mcp.TaskCancelled
	if delivered {
		r.setEnding(t.Outcome.Result, nil, t.Outcome.Err)
		if err == nil {
			r.log.Close()
			r.worked.Set()
			if t.Expired(r.runner.o.now()) { // its alarm may have come before the end
				r.cancel(errExpired)
			}
			r.awaitDelivery()
		}
	}
	r.mu.Lock()
	r.finishing = true
	r.mu.Unlock()
	if delivered {
		r.deliverRest()
	}
	r.stop(err)
	r.worked.Set()
	r.door.Lock()
	defer r.door.Unlock()
	if told := r.Task().UpdatedAt; t.UpdatedAt.Before(told) {
		t.UpdatedAt = told // by output that this process saw before the end
	}
	r.conclude(t, true)
}

// Take runs spec.Work as a task that another process has stored: as its supervisor. work says for people what that is.
func (r *Runner) Take(ctx context.Context, id string, work []byte, spec Spec) (*Run, error) {
	spec.Handle = true
	run := r.newRun(spec, Task{ID: id, Owner: r.o.Owner})
	t, err := r.o.State.Take(ctx, run.task, work)
	if err != nil {
		run.cancel(err)
		return nil, err
	}
	run.task, run.taken = t, true
	if err := run.forgetNotes(ctx); err != nil {
		r.o.Log.Warn().Err(err).Str("taskId", id).Msg("an earlier attempt's questions may still be shown")
	}
	run.door.Lock() // the ttl may be over at once
	defer run.door.Unlock()
	run.expiry = setAlarm(r.o.now, t.CreatedAt.Add(t.TTL), &run.ended, run.expire)
	r.mu.Lock()
	r.live[id] = run
	r.watch()
	r.mu.Unlock()
	r.begin(run)
	return run, nil
}
