package methods

import (
	"context"
	"encoding/json"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks/run"
)

// methods are the handlers.
type methods struct {
	*run.Runner
	merging chan struct{} // holds an element for each merged result in memory
}

// Register adds the tasks methods of both eras to srv, and declares the tasks capability.
func Register(srv *rpc.Server, r *run.Runner) {
	m := &methods{r, make(chan struct{}, maxMerging)}
	srv.Declare(func(c *rpc.Caller, caps *mcp.ServerCapabilities) {
		if c.Version.Tasks {
			caps.Tasks = &mcp.ServerTasks{
				List:      &mcp.Present{},
				Cancel:    &mcp.Present{},
				Requests:  &mcp.TaskRequests{},
				Streaming: &mcp.TaskStreaming{Partial: &mcp.Present{}},
				Responses: &mcp.TaskResponses{Modes: []mcp.ResponseMode{mcp.ModeTask, mcp.ModeImmediate,
					mcp.ModeStreaming}},
			}
		}
		if c.Version.Stateless {
			// It must be exactly {}: with any key inside, the official client treats tasks as absent.
			caps.Extensions = map[string]json.RawMessage{mcp.ExtensionTasks: json.RawMessage("{}"),
				mcp.ExtensionTaskPartials: json.RawMessage("{}")}
		}
	})
	srv.Handle(rpc.Handshake, "tasks/get", m.limited(withTask(m.getTask)))
	srv.Handle(rpc.Handshake, "tasks/result", m.limited(withTask(m.taskResult)))
	srv.Handle(rpc.Handshake, "tasks/cancel", m.limited(withTask(m.cancelTask)))
	srv.Handle(rpc.Handshake, "runnel/tasks/variables", m.limited(withTasks(m.setVariables)))
	srv.Handle(rpc.Handshake, "tasks/list", m.limited(withTasks(m.listTasks)))
	// The tasks extension (ext-tasks, "Tasks") has no tasks/result and no tasks/list.
	srv.Handle(rpc.Stateless, "tasks/get", m.limited(extended(m.getDetailed)))
	srv.Handle(rpc.Stateless, "tasks/update", m.limited(extended(m.updateTask)))
	srv.Handle(rpc.Stateless, "tasks/cancel", m.limited(extended(m.cancelDetailed)))
	srv.Handle(rpc.Stateless, "runnel/tasks/variables",
		m.limited(func(ctx context.Context, c *rpc.Caller, params json.RawMessage) (any, error) {
			if err := NeedTasks(c); err != nil {
				return nil, err
			}
			return m.setVariables(ctx, c, params)
		}))
}

// limited refuses requests about tasks that exceed the limit.
func (m *methods) limited(h rpc.Handler) rpc.Handler {
	return func(ctx context.Context, c *rpc.Caller, params json.RawMessage) (any, error) {
		if err := m.CountRequest(); err != nil {
			return nil, err
		}
		return h(ctx, c, params)
	}
}

// withTasks refuses a method in a session whose version has no tasks. A client that uses one in another
// session can use tasks.
func withTasks(h rpc.Handler) rpc.Handler {
	return func(ctx context.Context, c *rpc.Caller, params json.RawMessage) (any, error) {
		if !c.Version.Tasks {
			return nil, rpc.Errorf(mcp.CodeMethodNotFound, "protocol version %s has no tasks", c.Version.Name)
		}
		Used(c).Set()
		return h(ctx, c, params)
	}
}

// withTask is withTasks for a method whose params name a task.
func withTask(h func(ctx context.Context, c *rpc.Caller, p mcp.TaskParams) (any, error)) rpc.Handler {
	return withTasks(func(ctx context.Context, c *rpc.Caller, params json.RawMessage) (any, error) {
		var p mcp.TaskParams
		if err := rawjson.Unmarshal(params, &p); err != nil || p.TaskID == "" {
			return nil, rpc.Errorf(mcp.CodeInvalidParams, "params.taskId must be a task's id")
		}
		return h(ctx, c, p)
	})
}
