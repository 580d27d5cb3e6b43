package run

import (
	"context"
	"encoding/json"
	"errors"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tasks"
)

// SetVariables merges a patch into the task's variables and returns them all. It fails with ErrEnded if the
// task has ended, with an *rpc.Error if the patch cannot be merged (CheckVariables), and if the variables
// cannot be stored.
func (r *Run) SetVariables(ctx context.Context, patch json.RawMessage) (json.RawMessage, error) {
	if err := tasks.CheckVariables(patch); err != nil {
		return nil, err
	}
	// One change at a time, so that the state never keeps an older version.
	r.changing.Lock()
	defer r.changing.Unlock()
	r.mu.Lock()
	if r.phase >= ending {
		r.mu.Unlock()
		return nil, tasks.ErrEnded
	}
	merged, has := r.task.Variables, r.kept
	r.mu.Unlock()
	patch = r.secrets.JSON(patch)
	var err error
	if has == handle {
		merged, err = r.runner.SetStored(ctx, r.id, patch)
	} else {
		merged, err = tasks.MergeVariables(merged, patch)
	}
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.task.Variables = merged
	return tasks.OwnVariables(merged), nil
}

// SetStored merges a patch into the variables of a stored task.
func (r *Runner) SetStored(ctx context.Context, id string, patch json.RawMessage) (json.RawMessage, error) {
	merged, err := r.store.SetVariables(ctx, id, patch)
	if err != nil && !errors.Is(err, tasks.ErrEnded) && !errors.Is(err, tasks.ErrFenced) &&
		!errors.As(err, new(*rpc.Error)) {
		err = rpc.Errorf(mcp.CodeInternalError, "the variables could not be stored: %v", err)
	}
	return merged, err
}
