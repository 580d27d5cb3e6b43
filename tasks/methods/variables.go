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
		return nil, rpc.Errorf(mcp.CodeInvalidParams,
			"params must be {\"taskId\": a task's id, \"set\": an object}; without set the variables are "+
				"only shown")
	}
	if run := m.Running(p.TaskID); run != nil {
		set := p.Set
		if len(set) == 0 {
			set = json.RawMessage("{}") // the answer also has what other processes have set
		}
		if merged, err := run.SetVariables(ctx, set); len(p.Set) > 0 || err == nil {
			return setAnswer(merged, err)
		}
	}
	t, err := m.Head(ctx, p.TaskID)
	if err != nil {
		return nil, tasks.WireError(err)
	}
	if len(p.Set) == 0 {
		return shownVariables(t.Variables), nil
	}
	if err := tasks.CheckVariables(p.Set); err != nil {
		return nil, err
	}
	return setAnswer(m.SetStored(ctx, t.ID, m.Secrets().JSON(p.Set)))
}

// setAnswer is the answer to a request that sets variables.
func setAnswer(merged json.RawMessage, err error) (any, error) {
	switch {
	case errors.Is(err, tasks.ErrEnded):
		return nil, rpc.Errorf(mcp.CodeInvalidParams,
			"the variables of a task can be set while it runs; it has ended")
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
