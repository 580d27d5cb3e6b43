package view

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"runnel/tasks"
	"runnel/tools"
)

// mineParams name a call.
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

// tools implements view_tools: what can be run.
func (v *view) tools(_ context.Context, in *tools.Call, _ struct{}) (any, error) {
	type shownTool struct {
		Name        string          `json:"name"`
		Title       string          `json:"title,omitempty"`
		Description string          `json:"description,omitempty"`
		InputSchema json.RawMessage `json:"inputSchema"`
	}
	list := []shownTool{}
	for _, t := range in.Startables() {
		list = append(list, shownTool{t.Name, t.Title, t.Description, t.InputSchema})
	}
	slices.SortFunc(list, func(a, b shownTool) int { return cmp.Compare(a.Name, b.Name) })
	answer := map[string]any{"tools": list}
	if v.hosts != nil {
		hosts := v.hosts()
		answer["hosts"], answer["sessions"] = hosts.Installed, hosts.Sessions
	}
	return answer, nil
}

// run implements view_run.
func (v *view) run(ctx context.Context, in *tools.Call, p mineParams) (any, error) {
	run, err := in.Start(ctx, p.Tool, p.Arguments)
	if err != nil {
		return nil, err
	}
	return map[string]string{"taskId": run.ID()}, nil
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
	return v.run(ctx, in, mineParams{t.Tool, t.Arguments})
}
