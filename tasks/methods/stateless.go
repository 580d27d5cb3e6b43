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
			return nil, rpc.Errorf(mcp.CodeInvalidParams,
				"params.taskId must be a task's id, and params.inputResponses an object")
		}
		return h(ctx, c, p)
	}
}

func (m *methods) getDetailed(ctx context.Context, c *rpc.Caller, p mcp.UpdateTaskParams) (any, error) {
	return m.BeforeTheEnd(c, p.TaskID, func() (any, error) { return m.detail(ctx, c, p.TaskID) })
}

// detail returns the result of tasks/get in the stateless era.
func (m *methods) detail(ctx context.Context, c *rpc.Caller, id string) (any, error) {
	t, err := m.Detailed(ctx, id)
	if err != nil {
		return nil, tasks.WireError(err)
	}
	if t.Result != nil || t.Error != nil {
		m.RecordRetrieved(t.TaskID)
	}
	t.ResultType = mcp.ResultComplete
	return Readable(c, t), nil
}

// updateTask answers a task's questions. Its acknowledgement is empty.
func (m *methods) updateTask(ctx context.Context, _ *rpc.Caller, p mcp.UpdateTaskParams) (any, error) {
	if p.InputResponses == nil {
		return nil, rpc.Errorf(mcp.CodeInvalidParams, "params.inputResponses must be an object")
	}
	return nil, tasks.WireError(m.Answer(ctx, p.TaskID, p.InputResponses))
}

// cancelDetailed acknowledges the request even if the task has already ended: cancelling is "cooperative".
func (m *methods) cancelDetailed(ctx context.Context, _ *rpc.Caller, p mcp.UpdateTaskParams) (any, error) {
	if _, err := m.CancelWithReason(ctx, p.TaskID, p.Meta.Reason); err != nil &&
		!errors.Is(err, tasks.ErrEnded) {
		return nil, tasks.WireError(err)
	}
	return nil, nil
}
