package tasks

import (
	"context"
	"errors"
	"time"

	"runnel/rpc/mcp"
)

// A detached task outlives the process that started it: another one, its supervisor, takes it and runs it, as
// its keeper in the store. Whoever wants to see it follows it there: the Run that started it, and those of Follow.

const (
	// lookFirst and lookMost are how often the store is looked at for a task that is followed: soon while output comes, then less.
	lookFirst = 50 * time.Millisecond
	lookMost  = 400 * time.Millisecond
)

// errLeft is why a run ends that nobody follows any more.
var errLeft = errors.New("not followed any more")

// Detach hands the task to another process. start starts that, and returns when it has taken the task (Runner.Take), or
// why it has not. Nothing may have been written to the log. When Detach has returned nil, the work must return too, whatever:
// the run goes on by following the task, and ends as the task does.
func (r *Run) Detach(ctx context.Context, start func() error) error {
	if err := r.Promote(ctx); err != nil {
		return err
	}
	shared, ok := r.runner.o.Store.(Shared)
	if !ok {
		panic("internal error: nothing outlives this process")
	}
	r.mu.Lock()
	if r.finishing {
		r.mu.Unlock()
		return ErrEnded
	}
	handing := make(chan struct{})
	r.handing = handing
	r.mu.Unlock()

	// From here on until it is known who runs the task, nobody ends or changes it.
	r.door.Lock()
	defer r.door.Unlock()
	err := start()
	taken, unknown := shared.Taken(context.WithoutCancel(ctx), r.id)
	if unknown != nil {
		taken = err == nil
	}
	if taken {
		r.log.Follow()
		r.Segments().Follow()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.handing = nil
	close(handing)
	if !taken {
		return err
	}
	r.task.Detached = true
	r.detached.Happen()
	return nil
}

// Detached is closed when another process runs the task.
func (r *Run) Detached() <-chan struct{} { return r.detached.Done() }

// lockAtHome locks mu when it is known who runs the task.
func (r *Run) lockAtHome() {
	r.mu.Lock()
	for r.handing != nil {
		handing := r.handing
		r.mu.Unlock()
		<-handing
		r.mu.Lock()
	}
}

// finishAway is finish for a task that another process runs: to cancel it is to ask for that, which nobody waits for here. It
// expires by itself, and does not end with this process.
func (r *Run) finishAway(cause error) bool {
	switch cause {
	case errExpired:
		r.ctx.Cancel(cause)
		return false
	case errCancelled:
	default:
		return false
	}
	err := r.runner.o.Store.(Shared).Ask(context.Background(), r.runner.o.Owner, r.id)
	if err != nil {
		r.runner.o.Log.Error().Err(err).Str("taskId", r.id).Msg("a detached task could not be cancelled")
	}
	if r.worked.Has() {
		r.ctx.Cancel(cause) // it has ended, and only its delivery is waited for
	}
	return err == nil
}

// follow follows a task that another process runs until it has ended, or nobody wants to know any more.
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
	r.stop(err)
	r.worked.Happen()
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
	r.ended.Happen()
}

// lookOn brings the run up to date until the task has ended. It fails with ErrNotFound when the task is gone, and
// with the cause of the run's context.
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
			r.changes.Tell()
		}
	}
}

// Take runs spec.Work as a task that another process has stored: as its supervisor. work says for people what that is.
func (r *Runner) Take(ctx context.Context, id string, work []byte, spec Spec) (*Run, error) {
	spec.Handle = true
	run := r.newRun(spec, Task{ID: id, Owner: r.o.Owner})
	t, err := r.o.Store.(Shared).Take(ctx, run.task, work)
	if err != nil {
		run.ctx.Cancel(err)
		return nil, err
	}
	run.task = t
	run.expiry = time.AfterFunc(time.Until(t.CreatedAt.Add(t.TTL)), run.expire)
	r.mu.Lock()
	r.live[id] = run
	r.watch()
	r.mu.Unlock()
	r.begin(run)
	go run.Do()
	return run, nil
}

// Follow returns the run of a task: the one that runs it, or one that follows what another process does. It is nil
// if the task has ended. release ends the following when nobody else needs it.
func (r *Runner) Follow(ctx context.Context, id string) (run *Run, release func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if run = r.live[id]; run == nil {
		r.mu.Unlock()
		t, err := r.elsewhere(ctx, id)
		r.mu.Lock()
		if err != nil || t.Log == nil {
			return nil, func() {}, err
		}
		if run = r.live[id]; run == nil {
			run = r.newRun(Spec{Tool: t.Tool, Handle: true, Work: followed}, t)
			run.follower = true
			run.deliveries = 0
			run.detached.Happen()
			r.live[id] = run
			r.all.Add(1)
			go run.Do()
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

// elsewhere is a task that another process runs, to be followed; without a log if it has ended.
func (r *Runner) elsewhere(ctx context.Context, id string) (Task, error) {
	shared, ok := r.o.Store.(Shared)
	if _, unstored := r.unstored(id); !ok || unstored {
		return Task{}, nil
	}
	return shared.Follow(ctx, r.o.Owner, id)
}

// followed is the work of a run that only follows.
func followed(context.Context, *Run) (*mcp.CallToolResult, string, error) { return nil, "", nil }
