package tasks

import (
	"context"
	"encoding/json"
	"errors"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

// SetVariables merges a patch into the task's variables and returns them all. It fails with ErrEnded if the
// task has ended, with an *rpc.Error if the patch cannot be merged (CheckVariables), and if the variables
// cannot be stored.
func (r *Run) SetVariables(ctx context.Context, patch json.RawMessage) (json.RawMessage, error) {
	if err := CheckVariables(patch); err != nil {
		return nil, err
	}
	// One change at a time, so that the state never keeps an older version.
	r.changing.Lock()
	defer r.changing.Unlock()
	r.mu.Lock()
	if r.phase.now >= ending {
		r.mu.Unlock()
		return nil, ErrEnded
	}
	merged, has := r.task.Variables, r.kept
	r.mu.Unlock()
	patch = r.secrets.JSON(patch)
	var err error
	if has == handle {
		merged, err = r.runner.setStored(ctx, r.id, patch)
	} else {
		merged, err = MergeVariables(merged, patch)
	}
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.task.Variables = merged
	return OwnVariables(merged), nil
}

// setStored merges a patch into the variables of a stored task.
func (r *Runner) setStored(ctx context.Context, id string, patch json.RawMessage) (json.RawMessage, error) {
	merged, err := r.o.State.SetVariables(ctx, r.o.Owner, id, patch)
	if err != nil && !errors.Is(err, ErrEnded) && !errors.As(err, new(*rpc.Error)) {
		err = rpc.Errorf(mcp.CodeInternalError, "the variables could not be stored: %v", err)
	}
	return merged, err
}

// setVariables answers runnel/tasks/variables with the variables, after it has set those in the request, if
// there are any.
func (r *Runner) setVariables(ctx context.Context, _ *rpc.Caller, params json.RawMessage) (any, error) {
	var p struct {
		TaskID string          `json:"taskId"`
		Set    json.RawMessage `json:"set"`
	}
	if err := rawjson.Unmarshal(params, &p); err != nil || p.TaskID == "" {
		return nil, rpc.Errorf(mcp.CodeInvalidParams, "params must be {\"taskId\": a task's id, \"set\": an object}; without set the variables are only shown")
	}
	run := r.running(p.TaskID)
	if run != nil && len(p.Set) > 0 {
		return setAnswer(run.SetVariables(ctx, p.Set))
	}
	t, err := r.Head(ctx, p.TaskID)
	switch {
	case err != nil:
		return nil, WireError(err)
	case len(p.Set) == 0:
		return shownVariables(t.Variables), nil
	case t.Detached && !t.Status.Terminal():
		if err := CheckVariables(p.Set); err != nil {
			return nil, err
		}
		return setAnswer(r.setStored(ctx, t.ID, r.o.Secrets.Set().JSON(p.Set)))
	}
	return nil, rpc.Errorf(mcp.CodeInvalidParams, "the variables of a task can be set while it runs, where it runs")
}

// setAnswer is the answer to a request that sets variables.
func setAnswer(merged json.RawMessage, err error) (any, error) {
	switch {
	case errors.Is(err, ErrEnded):
		return nil, rpc.Errorf(mcp.CodeInvalidParams, "the variables of a task can be set while it runs; it has ended")
	case err != nil:
		return nil, err
	}
	return shownVariables(merged), nil
}

// shownVariables is the answer to runnel/tasks/variables.
func shownVariables(v json.RawMessage) any {
	v = OwnVariables(v)
	switch {
	case v == nil:
		v = json.RawMessage("{}")
	case len(v) > mcp.MaxContent:
		return map[string]any{"_meta": map[string]any{mcp.MetaVariablesBytes: len(v)}}
	}
	return map[string]json.RawMessage{"variables": v}
}
