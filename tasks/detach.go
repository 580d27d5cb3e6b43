package tasks

import (
	"context"
	"time"
)

// A detached task outlives the process that started it: another one, its supervisor, takes it and runs it, as
// its keeper in the store. Whoever wants to see it follows it there: the Run that started it, and those of Follow.

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
