package methods

import (
	"context"
	"encoding/json"
	"errors"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks"
)

// setVariables answers runnel/tasks/variables with the variables, after it has set those in the request, if
// there are any.
func (m *methods) setVariables(ctx context.Context, _ *rpc.Caller, params json.RawMessage) (any, error) {
	var p struct {
		TaskID string          `json:"taskId"`
		Set    json.RawMessage `json:"set"`
	}
	if err := rawjson.Unmarshal(params, &p); err != nil || p.TaskID == "" {
		return nil, rpc.Errorf(mcp.CodeInvalidParams, "params must be {\"taskId\": a task's id, \"set\": an object}; without set the variables are only shown")
	}
	run := m.Running(p.TaskID)
	if run != nil && len(p.Set) > 0 {
		return setAnswer(run.SetVariables(ctx, p.Set))
	}
	t, err := m.Head(ctx, p.TaskID)
	switch {
	case err != nil:
		return nil, tasks.WireError(err)
	case len(p.Set) == 0:
		return shownVariables(t.Variables), nil
	case t.Detached && !t.Status.Terminal():
		if err := tasks.CheckVariables(p.Set); err != nil {
			return nil, err
		}
		return setAnswer(m.SetStored(ctx, t.ID, m.Secrets().JSON(p.Set)))
	}
	return nil, rpc.Errorf(mcp.CodeInvalidParams, "the variables of a task can be set while it runs, where it runs")
}

// setAnswer is the answer to a request that sets variables.
func setAnswer(merged json.RawMessage, err error) (any, error) {
	switch {
	case errors.Is(err, tasks.ErrEnded):
		return nil, rpc.Errorf(mcp.CodeInvalidParams, "the variables of a task can be set while it runs; it has ended")
	case err != nil:
		return nil, err
	}
	return shownVariables(merged), nil
}

// shownVariables is the answer to runnel/tasks/variables.
func shownVariables(v json.RawMessage) any {
	v = tasks.OwnVariables(v)
	switch {
	case v == nil:
		v = json.RawMessage("{}")
	case len(v) > mcp.MaxContent:
		return map[string]any{"_meta": map[string]any{mcp.MetaVariablesBytes: len(v)}}
	}
	return map[string]json.RawMessage{"variables": v}
}
