package tasks

import (
	"bytes"
	"context"
	"time"

	"runnel/partials"
	"runnel/rpc/mcp"
)

// Start runs spec.Work as a new task, in a goroutine of its own. It fails, with an *rpc.Error, when there are too many live tasks or the
// task cannot be stored.
func (r *Runner) Start(ctx context.Context, spec Spec) (*Run, error) {
	now := r.o.now()
	run := r.newRun(spec, Task{
		ID:        NewID(now),
		Owner:     r.o.Owner,
		Tool:      spec.Tool,
		Status:    mcp.TaskWorking,
		CreatedAt: now,
		UpdatedAt: now,
		TTL:       r.ttl(spec.TTL),
		Variables: spec.Variables,
		Merge:     spec.Merge,
	})
	run.door.Lock() // an end that another process asks for as soon as the task is stored waits
	defer run.door.Unlock()
	if spec.Handle {
		if err := r.admit(ctx, run); err != nil {
			run.cancel(err)
			run.begun.Set()
			return nil, err
		}
	}
	r.begin(run)
	return run, nil
}

// newRun makes a run of a task, with a log of its own.
func (r *Runner) newRun(spec Spec, t Task) *Run {
	if spec.Client == nil {
		spec.Client = nobody{}
	}
	run := &Run{View: View{id: t.ID, runner: r, task: t}, spec: spec, secrets: r.o.Secrets.Set(), handle: spec.Handle, owed: 1}
	run.task.Variables = run.secrets.JSON(t.Variables)
	run.ctx, run.cancel = context.WithCancelCause(r.ctx)
	o := partials.LogOptions{MaxPending: r.o.MaxPending, Memory: &r.memory, Lost: run.cancel}
	if spec.Late && !spec.Handle {
		o.Spill = run.spill
		run.hider = time.AfterFunc(hideAfter, o.Spill)
	}
	run.log = partials.NewLog(&o)
	run.segments = partials.NewSegments(run.log)
	run.task.Log, run.task.Segments = run.log, run.segments
	return run
}

// ttl is the ttl that is granted: what was asked for, within bounds.
func (r *Runner) ttl(asked time.Duration) time.Duration {
	if asked == 0 {
		asked = r.o.TTL
	}
	return min(max(asked, minTTL), r.o.MaxTTL)
}

// begin lets a run do its work, which Close waits for from then on. The door is held: nobody ends it before.
func (r *Runner) begin(run *Run) {
	run.spec.Client.Begin(run)
	run.begun.Set()
	r.all.Add(1)
	go run.do()
}

// maxArguments is how long arguments may be that are kept with a task, in bytes: a state writes them with each status.
const maxArguments = 16 << 10

// admit counts and stores a task that gets a handle. The run's door is held.
func (r *Runner) admit(ctx context.Context, run *Run) error {
	if err := r.enter(run); err != nil {
		return r.refused(run, err)
	}
	if n := len(run.spec.Arguments); n > 0 && n <= maxArguments && !run.secrets.Holds(run.spec.Arguments) { // with *** in them they would be others
		run.mu.Lock()
		run.task.Arguments = bytes.Clone(run.spec.Arguments) // what the client sent is a part of a larger line
		run.mu.Unlock()
	}
	// A task is stored before its handle is sent.
	task := run.Task()
	if err := r.o.State.Put(ctx, task); err != nil {
		r.forget(run)
		return r.refused(run, err)
	}
	r.mu.Lock()
	r.working[run] = true
	r.remember(&task)
	r.mu.Unlock()
	run.expiry = setAlarm(r.o.now, task.CreatedAt.Add(task.TTL), &run.ended, run.expire)
	r.tellCreated(&task)
	return nil
}

// enter takes a run into the live ones, if the limits let it.
func (r *Runner) enter(run *Run) error {
	ending := run.Task().Ending
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case ending:
	case len(r.live) >= r.o.MaxLive:
		return ErrTooManyLive
	case !r.starts.take():
		return ErrTooManyStarts
	}
	r.live[run.id] = run
	r.watch()
	return nil
}

// Promote gives a handle to a run, if it has none. It fails like Start, or with ErrEnded.
func (r *Run) Promote(ctx context.Context) error { return r.promote(ctx, false) }

// Keep gives a handle to a run whose work is done, so that its output can be read afterwards. It fails if the task cannot be
// stored, and not at a limit: those are for work that goes on.
func (r *Run) Keep(ctx context.Context) error { return r.promote(ctx, true) }

func (r *Run) promote(ctx context.Context, ending bool) error {
	r.door.Lock()
	defer r.door.Unlock()
	r.mu.Lock()
	r.task.Ending = r.task.Ending || ending
	finishing, handle := r.finishing, r.handle
	r.mu.Unlock()
	if finishing {
		return ErrEnded
	}
	if handle {
		return nil
	}
	// An end that begins from here on waits for the door, and finds the handle.
	if err := r.runner.admit(ctx, r); err != nil {
		return err
	}
	r.unhide()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.handle = true
	return nil
}
