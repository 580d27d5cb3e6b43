package run

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"runnel/internal/pause"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks"
)

// A detached task outlives the process that started it: another process, its supervisor, takes it and runs
// it. Both have a Run for it. The supervisor's (Runner.Take) is like any other; the Run in the process that
// started the task (Run.Detach) follows it from then on.

// errAlone refuses to hand over a task that no other process finds.
var errAlone = errors.New("tasks are in the memory of this process, and no other one can run them")

// Detach hands the task to another process. The work calls it before it writes anything to the log. start
// starts that process, and returns when it has taken the task (Runner.Take), or why it has not. If Detach
// returns nil, the work must return, since the Run now follows the task.
// Use it for work that must outlive this process.
func (r *Run) Detach(ctx context.Context, start func() error) error {
	return r.handOver(ctx, away, nil, start)
}

// handOver is Detach to a place. put, unless it is nil, stores a task of which nothing is stored yet, as one
// that is handed over: then start is not called.
func (r *Run) handOver(ctx context.Context, to place, put storer, start func() error) error {
	if r.runner.shared == nil {
		return errAlone
	}
	r.changing.Lock()
	defer r.changing.Unlock()
	inOne := put != nil && r.kept == nothing
	if !inOne {
		if err := r.promote(ctx, false, r.runner.store.Put); err != nil {
			return err
		}
	}
	if !r.moveTo(handing) {
		return tasks.ErrEnded
	}
	var err error
	if !inOne {
		err = start()
	} else if err = r.promote(ctx, false, put); err != nil {
		r.moveTo(here)
		return err
	}
	taken, unknown := r.runner.shared.Taken(context.WithoutCancel(ctx), r.id)
	for unknown != nil && r.taken { // another process may run it by now: this one must know
		if !pause.For(ctx, watchRetry) {
			r.moveTo(here)
			return context.Cause(ctx)
		}
		taken, unknown = r.runner.shared.Taken(context.WithoutCancel(ctx), r.id)
	}
	if unknown != nil { // the state does not answer
		taken = err == nil
	}
	if !taken {
		r.moveTo(here)
		return err
	}
	r.log.Follow()
	r.segments.Follow()
	r.moveTo(to)
	return nil
}

// moveTo sets the place, and reports false if the task is ending instead.
func (r *Run) moveTo(to place) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.phase >= ending {
		return false
	}
	if to >= away {
		r.task.Detached = true
		r.detached.Set()
	}
	r.place = to
	r.settled.Broadcast()
	return true
}

// follow ends the run when the task has ended where it runs, or when the Runner is closed.
func (r *Run) follow() {
	t, err := r.watchUntilEnd(r.spec.Client)
	delivers := t.Status.Terminal() && t.Status != mcp.TaskCancelled // the rest of the output
	if delivers {
		r.setEnding(t.Outcome.Result, nil, t.Outcome.Err)
		if err == nil {
			r.workReturned()
			if t.Expired(r.runner.o.now()) { // its alarm may have gone off before the end
				r.cancel(errExpired)
			}
			r.awaitDelivery()
		}
	}
	r.reach(ending)
	if delivers {
		r.deliverRest()
	}
	r.spec.Client.Silence()
	r.cancel(err)
	r.log.Close()
	r.worked.Set()
	r.changing.Lock()
	defer r.changing.Unlock()
	if !r.known && r.place == offered && !t.Status.Terminal() {
		r.cancelOffered(&t)
	}
	if shown := r.Task().UpdatedAt; t.UpdatedAt.Before(shown) {
		t.UpdatedAt = shown // this process saw output before the end
	}
	r.announceEnd(t, true)
	if r.place == offered && t.Status.Terminal() && !r.gaveBack() {
		r.runner.o.Ended(&t)
	}
}

// takenNote changes whenever a process takes a task that resumes.
const takenNote = tasks.WorkPrefix + ".taken"

// Take is Make for a task that another process has stored, in a supervisor or a worker. work describes this
// process to people.
func (r *Runner) Take(ctx context.Context, id string, work []byte, spec Spec) (*Run, error) {
	if r.shared == nil {
		return nil, errAlone
	}
	spec.Handle = true
	run := r.newRun(spec, tasks.Task{ID: id, Owner: r.o.Owner})
	t, err := r.shared.Take(ctx, run.task, work)
	if err != nil {
		run.cancel(err)
		return nil, err
	}
	run.task, run.taken = t, true
	if run.resumes() {
		// From here on the process before can note nothing more, if it only stood still: what it has noted
		// until now is in the answer, and a write that it has begun fails, since the variables are others
		// now.
		if err := run.noteTaken(ctx); err != nil {
			run.cancel(err)
			return nil, err
		}
		t = run.task
	}
	run.earlier = map[string]json.RawMessage{}
	for key, a := range readNotes(t.Variables, t.Attempt).answers {
		if strings.HasPrefix(key, lastingKey) && a.Error == nil {
			run.earlier[key] = a.Result
		}
	}
	// The questions of the keeper before are not open here.
	run.task.Status, run.task.StatusMessage = mcp.TaskWorking, ""
	if err := run.forgetNotes(ctx); err != nil {
		r.o.Log.Warn().Err(err).Str("taskId", id).Msg("an earlier attempt's questions may still be shown")
	}
	run.changing.Lock()
	defer run.changing.Unlock()
	run.expiryTimer = setAlarm(r.o.now, t.CreatedAt.Add(t.TTL), func() bool { return run.past(ended) },
		run.expire)
	r.mu.Lock()
	r.live[id], r.working[run] = run, true
	r.startWatching()
	r.mu.Unlock()
	return run, nil
}

// noteTaken changes the takenNote, and tries again while the state is away. It fails if another process has
// taken or ended the task since, or ctx ends: then the task is left to others when this process ends. Where
// there is no room for the note, the task goes on without it.
func (r *Run) noteTaken(ctx context.Context) error {
	for failed := false; ; failed = true {
		err := r.Remember(ctx, map[string]any{takenNote: rand.Text()})
		if err == nil || errors.Is(err, tasks.ErrFenced) || errors.Is(err, tasks.ErrEnded) {
			return err
		}
		if full, ok := errors.AsType[*rpc.Error](err); ok && full.Code == mcp.CodeInvalidParams {
			r.runner.o.Log.Warn().Err(err).Str("taskId", r.id).
				Msg("the runnel that ran this task before may still note what it does")
			return nil
		}
		if !failed {
			r.runner.o.Log.Warn().Err(err).Str("taskId", r.id).
				Msg("a task that was left does not go on before this is stored; trying again")
		}
		if !pause.For(ctx, watchRetry) {
			return context.Cause(ctx)
		}
	}
}

// Offer hands the task to a worker. The work calls it before it writes anything to the log, and must return
// if Offer returns nil, as with Detach: the Run then follows the task, or ends if this process is a worker
// that gives the task back.
func (r *Run) Offer(ctx context.Context, o tasks.Offer) error {
	queue, ok := r.runner.store.(tasks.Queue)
	if !ok {
		return tasks.ErrNoQueue
	}
	err := r.handOver(ctx, offered, func(ctx context.Context, t tasks.Task) error {
		o.Attached = !r.known
		return queue.PutOffered(context.WithoutCancel(ctx), t, o)
	}, func() error {
		o.Attached = !r.known
		return queue.Offer(context.WithoutCancel(ctx), r.id, o)
	})
	switch {
	case err != nil:
	case r.taken: // the process that made the call follows it
		r.cancel(errUnfollowed)
	default:
		time.AfterFunc(workerWait, func() {
			r.runner.Go(func(ctx context.Context) { r.warnOfClass(ctx, queue, o.Class) })
		})
	}
	return err
}

// workerWait is how long an offered task waits before this process looks whether there is a worker.
const workerWait = time.Second

// warnOfClass says if the task waits for a class that has no workers.
func (r *Run) warnOfClass(ctx context.Context, queue tasks.Queue, class string) {
	if !r.Task().Waiting {
		return
	}
	workers, _, err := queue.Fleet(ctx)
	if err == nil && !slices.ContainsFunc(workers,
		func(w tasks.Worker) bool { return slices.Contains(w.Classes, class) }) {
		r.runner.o.Log.Warn().Str("taskId", r.id).Str("tool", r.spec.Tool).
			Msgf("no worker of class %s is there: the call waits until runnel work --class %[1]s starts one",
				class)
	}
}

// leaveTimeout bounds how long Close waits for a server: without an answer, the worker finds out by itself.
const leaveTimeout = time.Second

// cancelOffered asks for the end of an offered task whose client has not got its id. changing is held.
func (r *Run) cancelOffered(t *tasks.Task) {
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	if err := r.runner.shared.Ask(ctx, t.ID); err != nil {
		r.runner.o.Log.Warn().Err(err).Str("taskId", t.ID).
			Msg("the worker of a call that ends here was not told")
	}
	t.Outcome = &tasks.Outcome{Result: mcp.ErrorResult(errClosed.Error())}
}

// gaveBack reports whether this worker has given the task back, so that another process reports its end.
func (r *Run) gaveBack() bool { return r.taken && r.away() }

// A task whose work can be continued is left when its runner is closed, or dies with its process. The process
// that takes it next (Runner.Left, Runner.Take) calls the work again, which finds out from its notes how far
// it has come.

// Remember stores notes of the task, of the names WorkPrefix and more, or tasks.ResumeNote: with that the
// task goes on in another process, where its text says what can continue it. nil deletes one. A state that
// ends with its process ignores them.
func (r *Run) Remember(ctx context.Context, notes map[string]any) error {
	if r.runner.shared == nil {
		return nil
	}
	// One change at a time, as in SetVariables.
	r.changing.Lock()
	defer r.changing.Unlock()
	variables, err := r.setNotes(ctx, notes)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.task.Variables = variables
	return nil
}

// Remembered returns the notes of the work, without WorkPrefix. Names that begin with a dot are runnel's own.
func (r *Run) Remembered() map[string]json.RawMessage {
	notes := map[string]json.RawMessage{}
	variables := r.Task().Variables
	if !tasks.HasNotes(variables) {
		return notes
	}
	for it := rawjson.Over(variables); it.Next(); {
		if name, ok := strings.CutPrefix(string(it.Name), tasks.WorkPrefix); ok &&
			!strings.HasPrefix(name, ".") {
			notes[name] = it.Value
		}
	}
	return notes
}

// resumes reports whether another process can continue the task.
func (r *Run) resumes() bool { return tasks.Resumes(r.Task().Variables) != "" }

// leave ends the run here, with its process. The task has not ended: nothing of it is stored.
func (r *Run) leave() {
	switch first, isAway := r.claimEnd(mcp.TaskFailed); {
	case isAway:
		return
	case !first:
		<-r.Ended()
		return
	}
	r.cancel(errClosed)
	r.deliverRest()
	r.spec.Client.Silence()
	r.log.Close()
	r.changing.Lock()
	defer r.changing.Unlock()
	t := r.Task()
	t.Outcome = &tasks.Outcome{Result: mcp.ErrorResult("runnel was stopped; task " + t.ID +
		" goes on when a runnel with its tool is there")}
	r.announceEnd(t, true)
}

// Left returns the owner's tasks that no process runs, and that another one can continue.
func (r *Runner) Left(ctx context.Context) ([]tasks.Task, error) {
	if r.shared == nil {
		return nil, nil
	}
	return r.shared.Left(ctx)
}
