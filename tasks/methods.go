package tasks

import (
	"context"
	"encoding/json"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

// Register adds the tasks methods of both eras to srv, and declares the tasks capability.
func (r *Runner) Register(srv *rpc.Server) {
	srv.Declare(func(c *rpc.Caller, caps *mcp.ServerCapabilities) {
		if c.Version.Tasks {
			caps.Tasks = &mcp.ServerTasks{
				List:      &mcp.Present{},
				Cancel:    &mcp.Present{},
				Requests:  &mcp.TaskRequests{},
				Streaming: &mcp.TaskStreaming{Partial: &mcp.Present{}},
				Responses: &mcp.TaskResponses{Modes: []mcp.ResponseMode{mcp.ModeTask, mcp.ModeImmediate, mcp.ModeStreaming}},
			}
		}
		if c.Version.Stateless {
			// It must be exactly {}: with any key inside, the official client treats tasks as absent.
			caps.Extensions = map[string]json.RawMessage{mcp.ExtensionTasks: json.RawMessage("{}"), mcp.ExtensionTaskPartials: json.RawMessage("{}")}
		}
	})
	srv.Handle(rpc.Handshake, "tasks/get", r.limited(withTask(r.getTask)))
	srv.Handle(rpc.Handshake, "tasks/result", r.limited(withTask(r.taskResult)))
	srv.Handle(rpc.Handshake, "tasks/cancel", r.limited(withTask(r.cancelTask)))
	srv.Handle(rpc.Handshake, "runnel/tasks/variables", r.limited(withTasks(r.setVariables)))
	srv.Handle(rpc.Handshake, "tasks/list", r.limited(withTasks(r.listTasks)))
	// The tasks extension (ext-tasks, "Tasks") has no tasks/result and no tasks/list.
	srv.Handle(rpc.Stateless, "tasks/get", r.limited(extended(r.getDetailed)))
	srv.Handle(rpc.Stateless, "tasks/update", r.limited(extended(r.updateTask)))
	srv.Handle(rpc.Stateless, "tasks/cancel", r.limited(extended(r.cancelDetailed)))
	srv.Handle(rpc.Stateless, "runnel/tasks/variables", r.limited(func(ctx context.Context, c *rpc.Caller, params json.RawMessage) (any, error) {
		if err := NeedTasks(c); err != nil {
			return nil, err
		}
		return r.setVariables(ctx, c, params)
	}))
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
