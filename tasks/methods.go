package tasks

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"time"

	"runnel/rpc"
	"runnel/rpc/mcp"
)

// pageSize is how many tasks one tasks/list result shows: with a statusMessage of 2 KiB each it stays below 256 KiB.
const pageSize = 100

// Register adds the tasks methods of 2025-11-25 to srv, and declares the tasks capability.
func (r *Runner) Register(srv *rpc.Server) {
	srv.Declare(func(v *mcp.Version, caps *mcp.ServerCapabilities) {
		if v.Tasks {
			caps.Tasks = &mcp.ServerTasks{
				List:      &mcp.Present{},
				Cancel:    &mcp.Present{},
				Requests:  &mcp.TaskRequests{},
				Streaming: &mcp.TaskStreaming{Partial: &mcp.Present{}},
			}
		}
	})
	srv.Handle(rpc.Handshake, "tasks/get", withTask(r.getTask))
	srv.Handle(rpc.Handshake, "tasks/result", withTask(r.taskResult))
	srv.Handle(rpc.Handshake, "tasks/cancel", withTask(r.cancelTask))
	srv.Handle(rpc.Handshake, "tasks/list", withTasks(r.listTasks))
}

// withTasks refuses a method in sessions of versions that do not have it.
func withTasks(h rpc.Handler) rpc.Handler {
	return func(ctx context.Context, c *rpc.Caller, params json.RawMessage) (any, error) {
		if !c.Version.Tasks {
			return nil, rpc.Errorf(mcp.CodeMethodNotFound, "protocol version %s has no tasks", c.Version.Name)
		}
		return h(ctx, c, params)
	}
}

// withTask reads the task id that a method is about.
func withTask(h func(ctx context.Context, id string) (any, error)) rpc.Handler {
	return withTasks(func(ctx context.Context, _ *rpc.Caller, params json.RawMessage) (any, error) {
		var p mcp.TaskParams
		if err := json.Unmarshal(params, &p); err != nil || p.TaskID == "" {
			return nil, rpc.Errorf(mcp.CodeInvalidParams, "params.taskId must be a task's id")
		}
		return h(ctx, p.TaskID)
	})
}

func (r *Runner) getTask(ctx context.Context, id string) (any, error) {
	t, err := r.get(ctx, id)
	if err != nil {
		return nil, wireError(err)
	}
	return t.wire(r.o.PollInterval), nil
}

// taskResult answers with what the task's own request would have returned. "If the task is in a
// non-terminal status, the receiver MUST block the response until the task reaches a terminal status"
// (tasks, "Result Retrieval").
func (r *Runner) taskResult(ctx context.Context, id string) (any, error) {
	var t Task
	if run := r.running(id); run != nil {
		select {
		case <-run.Ended():
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if t = run.Task(); t.Expired(time.Now()) {
			return nil, wireError(ErrNotFound)
		}
	} else {
		var err error
		if t, err = r.o.Store.Get(ctx, r.o.Owner, id); err != nil {
			return nil, wireError(err)
		}
	}
	if t.Outcome.Err != nil {
		return nil, t.Outcome.Err
	}
	return WithRelated(t.Outcome.Result, id), nil
}

func (r *Runner) cancelTask(ctx context.Context, id string) (any, error) {
	if run := r.running(id); run != nil && run.Cancel("cancelled by the client") {
		t := run.Task()
		return t.wire(r.o.PollInterval), nil
	}
	t, err := r.get(ctx, id)
	if err != nil {
		return nil, wireError(err)
	}
	return nil, rpc.Errorf(mcp.CodeInvalidParams, "cannot cancel task: already in terminal status %q", t.Status)
}

func (r *Runner) listTasks(ctx context.Context, _ *rpc.Caller, params json.RawMessage) (any, error) {
	var p mcp.ListTasksParams
	if len(params) > 0 {
		if err := json.Unmarshal(params, &p); err != nil {
			return nil, rpc.Errorf(mcp.CodeInvalidParams, "params.cursor must be a string")
		}
	}
	page, next, err := r.o.Store.List(ctx, r.o.Owner, p.Cursor, pageSize)
	if err != nil {
		return nil, wireError(err)
	}
	result := mcp.ListTasksResult{Tasks: make([]mcp.Task, len(page)), NextCursor: next}
	for i, t := range page {
		result.Tasks[i] = t.wire(r.o.PollInterval)
	}
	return result, nil
}

// WithRelated is result with the _meta that names its task.
func WithRelated(result *mcp.CallToolResult, id string) *mcp.CallToolResult {
	tied := *result
	tied.Meta = related(id)
	maps.Copy(tied.Meta, result.Meta)
	return &tied
}

// wireError is the one place where an error of this room gets its code.
func wireError(err error) error {
	switch {
	case errors.Is(err, ErrNotFound):
		return rpc.Errorf(mcp.CodeInvalidParams, "task not found: it is unknown or has expired")
	case errors.Is(err, ErrCursor):
		return rpc.Errorf(mcp.CodeInvalidParams, "invalid cursor: use the nextCursor of the page before, or none")
	case errors.Is(err, ErrTransition):
		return rpc.Errorf(mcp.CodeInvalidParams, "%v", err)
	default:
		return err
	}
}
