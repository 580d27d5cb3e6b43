package tasks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

// NeedTasks refuses, with -32021, a request of a client that did not declare the tasks extension.
// Call it first in a handler of the stateless era that is about tasks.
func NeedTasks(c *rpc.Caller) error {
	if c.Capabilities.Extends(mcp.ExtensionTasks) {
		return nil
	}
	type extensions struct {
		Extensions map[string]mcp.Present `json:"extensions"`
	}
	return &rpc.Error{
		Code:    mcp.CodeMissingCapability,
		Message: "missing required client capability: the extension " + mcp.ExtensionTasks,
		Data: struct {
			Required extensions `json:"requiredCapabilities"`
		}{extensions{map[string]mcp.Present{mcp.ExtensionTasks: {}}}},
	}
}

func extended(h func(ctx context.Context, c *rpc.Caller, p mcp.UpdateTaskParams) (any, error)) rpc.Handler {
	return func(ctx context.Context, c *rpc.Caller, params json.RawMessage) (any, error) {
		if err := NeedTasks(c); err != nil {
			return nil, err
		}
		var p mcp.UpdateTaskParams
		if err := rawjson.Unmarshal(params, &p); err != nil || p.TaskID == "" {
			return nil, rpc.Errorf(mcp.CodeInvalidParams, "params.taskId must be a task's id, and params.inputResponses an object")
		}
		return h(ctx, c, p)
	}
}

func (r *Runner) getDetailed(ctx context.Context, c *rpc.Caller, p mcp.UpdateTaskParams) (any, error) {
	return r.beforeTheEnd(c, p.TaskID, func() (any, error) { return r.detail(ctx, c, p.TaskID) })
}

// detail returns the result of tasks/get in the stateless era.
func (r *Runner) detail(ctx context.Context, c *rpc.Caller, id string) (any, error) {
	t, err := r.Detailed(ctx, id)
	if err != nil {
		return nil, WireError(err)
	}
	if t.Result != nil || t.Error != nil {
		r.RecordRetrieved(t.TaskID)
	}
	t.ResultType = mcp.ResultComplete
	return Readable(c, t), nil
}

// updateTask answers a task's questions. Its acknowledgement is empty.
func (r *Runner) updateTask(ctx context.Context, _ *rpc.Caller, p mcp.UpdateTaskParams) (any, error) {
	if p.InputResponses == nil {
		return nil, rpc.Errorf(mcp.CodeInvalidParams, "params.inputResponses must be an object")
	}
	v, release, err := r.Follow(ctx, p.TaskID)
	if err != nil {
		return nil, WireError(err)
	}
	defer release()
	if v == nil { // it has ended
		return nil, nil
	}
	if t := v.Task(); t.Status == mcp.TaskInputRequired && v.away() && !bytes.Contains(t.Variables, []byte(questionPrefix)) {
		// "On success, the server MUST acknowledge": these answers would reach no question.
		return nil, rpc.Errorf(mcp.CodeInvalidParams, "the questions of a task can be answered where it runs, and another process runs it")
	}
	if err := v.CheckResponses(p.InputResponses); err != nil {
		return nil, err
	}
	return nil, v.Answer(ctx, p.InputResponses)
}

// cancelDetailed acknowledges the request even if the task has already ended: cancelling is "cooperative".
func (r *Runner) cancelDetailed(ctx context.Context, _ *rpc.Caller, p mcp.UpdateTaskParams) (any, error) {
	if _, err := r.cancelWithReason(ctx, p.TaskID, p.Meta.Reason); err != nil && !errors.Is(err, ErrEnded) {
		return nil, WireError(err)
	}
	return nil, nil
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
// Use it where the View is at hand, and Runner.Detailed otherwise.
func (v *View) Detailed() mcp.DetailedTask {
	t := v.live()
	return v.runner.detailed(&t, v.Questions())
}

func (r *Runner) detailed(t *Task, open map[string]mcp.InputRequest) mcp.DetailedTask {
	w := t.wire(r.o.PollInterval)
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
	d.Meta = WithVariables(nil, t, beside)
	return d
}

// Created returns the answer to a call that has become a task: resultType is "task".
// Use it in the stateless era, and Handle in the handshake one.
func (r *Run) Created() mcp.DetailedTask {
	t := r.Task()
	t.Status = mcp.TaskWorking
	t.StatusMessage = ""
	t.UpdatedAt = t.CreatedAt
	d := r.runner.detailed(&t, nil)
	d.ResultType = mcp.ResultTask
	return d
}
