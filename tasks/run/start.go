package run

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"time"

	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks"
	"runnel/tasks/files"
)

// Start runs spec.Work as a new task, in a goroutine: it is Make, then Begin.
func (r *Runner) Start(ctx context.Context, spec Spec) (*Run, error) {
	run, err := r.Make(ctx, spec)
	if err == nil {
		run.Begin()
	}
	return run, err
}

// Make makes a new task and, if it has a handle, stores it. It fails, with an *rpc.Error, if there are too
// many live tasks or the task cannot be stored. The work runs from Begin on: before, the caller opens what
// reads the output, so that none is missed. Begin must follow, since until then the task cannot end.
func (r *Runner) Make(ctx context.Context, spec Spec) (*Run, error) {
	now := r.o.now()
	run := r.newRun(spec, tasks.Task{
		ID:        cmp.Or(spec.ID, tasks.NewID(now)),
		Owner:     r.o.Owner,
		Tool:      spec.Tool,
		Client:    spec.ClientName,
		Status:    mcp.TaskWorking,
		CreatedAt: now,
		UpdatedAt: now,
		TTL:       r.ttl(&spec),
		Variables: spec.Variables,
		Merge:     spec.Merge,
	})
	if !spec.Handle {
		return run, nil
	}
	run.changing.Lock() // another process may change the variables as soon as the task is stored
	defer run.changing.Unlock()
	if err := r.admit(ctx, run, r.store.Put); err != nil {
		run.cancel(err)
		run.reach(running)
		run.settled.Broadcast()
		return nil, err
	}
	return run, nil
}

// newRun makes a run of a task, with a new log.
func (r *Runner) newRun(spec Spec, t tasks.Task) *Run {
	if spec.Client == nil {
		spec.Client = noClient{}
	}
	run := &Run{View: View{id: t.ID, runner: r, task: t}, spec: spec, secrets: r.o.Secrets.Set()}
	run.settled.L = &run.mu
	run.deliveries.expected = 1
	run.sampler.pace = samplePace
	if spec.Handle {
		run.kept, run.known = handle, true
	}
	run.task.Variables = run.secrets.JSON(t.Variables)
	run.ctx, run.cancel = context.WithCancelCause(r.ctx)
	o := partials.LogOptions{MaxPending: r.o.MaxPending, Memory: &r.memory, Lost: run.cancel}
	if spec.Late && !spec.Handle {
		o.Spill = run.spill
	}
	run.log = partials.NewLog(&o)
	run.segments = partials.NewSegments(run.log)
	run.task.Log, run.task.Segments = run.log, run.segments
	return run
}

// ttl returns the granted ttl: what was asked for or suits the work, within bounds.
func (r *Runner) ttl(spec *Spec) time.Duration {
	longest := r.o.MaxTTL
	if spec.Lasts {
		longest = r.o.MaxLasting
	}
	asked := spec.TTL
	if asked == 0 {
		asked = max(r.o.TTL, 2*spec.Longest)
	}
	return min(max(asked, minTTL), longest)
}

// Begin starts the work of a run that Make or Take has returned; from then on Runner.Close waits for it. The
// task does not end before Deliver or Delivered has been called, too, and the last of its output is written.
func (r *Run) Begin() {
	r.mu.Lock()
	// Close waits for what it is writing.
	r.sampler.timer = time.AfterFunc(sampleFirst, func() { r.runner.Go(r.sample) })
	if r.spec.Late && !r.spec.Handle {
		r.hideTimer = time.AfterFunc(hideAfter, r.spill)
	}
	r.setPhase(running)
	r.mu.Unlock()
	r.settled.Broadcast()
	r.runner.all.Add()
	go r.do()
}

// maxArguments is how long arguments may be, in bytes, to be kept with a task: a state writes them with each
// status.
const maxArguments = 16 << 10

// argumentsToKeep returns the arguments that are kept with a task, nil for none.
func (r *Run) argumentsToKeep() json.RawMessage {
	// Masked arguments would be wrong.
	if len(r.spec.Arguments) > maxArguments || r.secrets.Holds(r.spec.Arguments) {
		return nil
	}
	return bytes.Clone(r.spec.Arguments) // the client's arguments are part of a longer line
}

// storer stores a new task: Store.Put, or Queue.PutOffered.
type storer func(ctx context.Context, t tasks.Task) error

// admit checks the limits for a task that gets a handle, and stores it. changing is held.
func (r *Runner) admit(ctx context.Context, run *Run, store storer) error {
	if err := r.addLive(run); err != nil {
		return r.refused(run, err)
	}
	arguments := run.argumentsToKeep()
	run.mu.Lock()
	run.task.Arguments = arguments
	if r.o.Place != "" { // an error only says that the variables are full
		note := rawjson.Encode(map[string]string{tasks.PlaceNote: r.o.Place})
		if with, err := tasks.MergeVariables(run.task.Variables, note); err == nil {
			run.task.Variables = with
		}
	}
	run.mu.Unlock()
	// A task is stored before its handle is sent.
	task := run.Task()
	if err := store(ctx, task); err != nil {
		r.forget(run)
		return r.refused(run, err)
	}
	r.mu.Lock()
	r.working[run] = true
	r.remember(&task)
	r.mu.Unlock()
	run.expiryTimer = setAlarm(r.o.now, task.CreatedAt.Add(task.TTL), func() bool { return run.past(ended) },
		run.expire)
	r.recordCreated(&task)
	return nil
}

// Promote gives a handle to a run that has none. It fails like Start, or with ErrEnded.
func (r *Run) Promote(ctx context.Context) error {
	r.changing.Lock()
	defer r.changing.Unlock()
	err := r.promote(ctx, false, r.runner.store.Put)
	if err == nil && !r.known && r.away() { // its worker knows it as Attached
		_, err = r.setNotes(ctx, map[string]any{tasks.HandedNote: true})
	}
	if err == nil {
		r.known = true
	}
	return err
}

// Keep gives a handle to a run whose work is done, so that its output can be read later. It fails if the task
// cannot be stored. The limits on live tasks and starts do not apply, since they are meant for running work.
func (r *Run) Keep(ctx context.Context) error {
	r.changing.Lock()
	defer r.changing.Unlock()
	return r.promote(ctx, true, r.runner.store.Put)
}

// KeepFiles returns a writer for up to limit bytes of files that the run has made, and gives it a handle, as
// Keep does: its client reads the files by the task's id. Call it once.
func (r *Run) KeepFiles(ctx context.Context, limit int64) (*files.Writer, error) {
	if err := r.Keep(ctx); err != nil {
		return nil, err
	}
	return files.Create(r.runner.store, r.Task(), limit), nil
}

// promote stores a run that has no handle, so that it has one. changing is held.
func (r *Run) promote(ctx context.Context, worked bool, store storer) error {
	r.mu.Lock()
	r.task.Ending = r.task.Ending || worked
	over, has := r.phase >= ending, r.kept
	r.mu.Unlock()
	if over {
		return tasks.ErrEnded
	}
	if has == handle {
		return nil
	}
	// An end that starts from now on waits for changing, and then finds the handle.
	if err := r.runner.admit(ctx, r, store); err != nil {
		return err
	}
	if has == hidden {
		r.runner.unhide(r.id)
	}
	r.mu.Lock()
	r.kept = handle
	if r.matching.unstored {
		r.announceAfter(0)
	}
	asks := r.task.Password != nil
	r.mu.Unlock()
	if asks {
		r.notePassword()
	}
	if r.input.Load() != nil {
		r.receiveNotes()
	}
	return nil
}
