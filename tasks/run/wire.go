package run

import (
	"context"
	"fmt"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tasks"
)

// Wire returns a task as a status notification of the handshake era shows it.
func (r *Runner) Wire(t *tasks.Task) mcp.Task { return t.Wire(r.o.PollInterval) }

// Handle returns the answer to the task-augmented request of the handshake era that started the run.
func (r *Run) Handle() mcp.CreateTaskResult {
	// A handle always shows the status working, even if that has changed since ("Task Status Lifecycle":
	// tasks begin in the working status); later statuses follow it.
	t := r.Task()
	t.Status = mcp.TaskWorking
	t.StatusMessage = ""
	t.UpdatedAt = t.CreatedAt
	return mcp.CreateTaskResult{
		Task: t.Wire(r.runner.o.PollInterval),
		Meta: map[string]any{mcp.MetaModelResponse: fmt.Sprintf("%s runs as task %s. Its result comes when it is done.", t.Tool, t.ID)},
	}
}

// BeforeTheEnd wraps an answer that shows a task: if it shows the task before its end, it is queued before
// the notification of that end. An answer that may be large, and so wait for the client, does not delay the
// end; nor does one in a batch, which may wait for other answers that wait for the end.
func (r *Runner) BeforeTheEnd(c *rpc.Caller, id string, show func() (any, error)) (any, error) {
	v := r.view(id)
	if v == nil || c.InBatch() {
		return show()
	}
	v.answering.RLock()
	held := false
	defer func() {
		if !held {
			v.answering.RUnlock()
		}
	}()
	shown, err := show()
	if err != nil || tasks.OwnVariables(v.Task().Variables) != nil || len(v.Questions()) > 0 {
		return shown, err
	}
	held = true
	return rpc.After{Result: shown, Do: v.answering.RUnlock, Drop: v.answering.RUnlock}, nil
}

// Detailed returns a task of the owner as clients of the tasks extension see it, with the members that its
// status adds. Use it where only the id is known, and View.Detailed otherwise.
func (r *Runner) Detailed(ctx context.Context, id string) (mcp.DetailedTask, error) {
	if v := r.view(id); v != nil {
		return v.Detailed(), nil
	}
	t, err := r.Get(ctx, id)
	if err != nil {
		return mcp.DetailedTask{}, err
	}
	open := map[string]mcp.InputRequest{}
	for _, q := range readNotes(t.Variables, t.Attempt).questions {
		open[q.key] = q.Request
	}
	return r.detailed(&t, open), nil
}

// Detailed returns the task as it is now, with the members that its status adds.
func (v *View) Detailed() mcp.DetailedTask {
	t := v.live()
	return v.runner.detailed(&t, v.Questions())
}

func (r *Runner) detailed(t *tasks.Task, open map[string]mcp.InputRequest) mcp.DetailedTask {
	w := t.Wire(r.o.PollInterval)
	if t.Status == mcp.TaskInputRequired && len(open) == 0 {
		w.Status = mcp.TaskWorking // the questions were just answered, or only the process that runs the task knows them
	}
	d := mcp.DetailedTask{
		TaskID: w.TaskID, Status: w.Status, StatusMessage: w.StatusMessage,
		CreatedAt: w.CreatedAt, LastUpdatedAt: w.LastUpdatedAt, TTLMs: w.TTL, PollIntervalMs: w.PollInterval,
	}
	beside := 0
	switch {
	case t.Status == mcp.TaskInputRequired:
		d.InputRequests = open // left out if it is empty
	case t.Status == mcp.TaskCancelled || !t.Status.Terminal():
	case t.Outcome.Err != nil:
		d.Error = t.Outcome.Err
	default:
		// "Errors within the context of a protocol method result MUST use the completed status"
		d.Status = mcp.TaskCompleted
		d.Result = &mcp.CompleteResult{ResultType: mcp.ResultComplete, CallToolResult: *t.Outcome.Result}
		beside = t.Outcome.Result.Size()
	}
	d.Meta = tasks.WithVariables(nil, t, beside)
	return d
}

// Created returns the answer to a call of the stateless era that has become a task: resultType is "task".
func (r *Run) Created() mcp.DetailedTask {
	t := r.Task()
	t.Status = mcp.TaskWorking
	t.StatusMessage = ""
	t.UpdatedAt = t.CreatedAt
	d := r.runner.detailed(&t, nil)
	d.ResultType = mcp.ResultTask
	return d
}
