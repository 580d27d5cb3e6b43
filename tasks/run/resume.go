package run

import (
	"context"
	"encoding/json"
	"strings"

	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks"
)

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
