package view

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"runnel/tasks"
	"runnel/tools"
)

type mineParams struct {
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
}

// mine implements view_mine.
func (v *view) mine(ctx context.Context, in *tools.Call, p mineParams) (any, error) {
	id, err := in.Recent(ctx, p.Tool, p.Arguments)
	return struct {
		TaskID string `json:"taskId,omitempty"`
	}{id}, err
}

// cancel implements view_cancel.
func (v *view) cancel(ctx context.Context, in *tools.Call, p taskParams) (any, error) {
	t, err := v.runner.Cancel(ctx, p.TaskID)
	if errors.Is(err, tasks.ErrEnded) {
		return nil, fmt.Errorf("the task has ended already: %s", t.Status)
	} else if err != nil {
		return nil, err
	}
	return v.show(ctx, in, &t, v.runner.Own()), nil
}

// again implements view_again.
func (v *view) again(ctx context.Context, in *tools.Call, p taskParams) (any, error) {
	t, err := v.runner.Head(ctx, p.TaskID)
	switch {
	case err != nil:
		return nil, err
	case t.Arguments == nil:
		return nil, errors.New("the arguments of this task were not kept, so it cannot be run again: call the tool with its arguments")
	}
	run, err := in.Start(ctx, t.Tool, t.Arguments)
	if err != nil {
		return nil, err
	}
	return map[string]string{"taskId": run.ID()}, nil
}
