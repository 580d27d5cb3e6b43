package tasks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

// pageSize is how many tasks one tasks/list result shows.
const pageSize = 50

const _ = uint(mcp.MaxContent - pageSize*(6*maxStatusMessage+1<<10)) // they fit, each with a statusMessage of control characters

// Register adds the tasks methods of 2025-11-25 to srv, and declares the tasks capability.
func (r *Runner) Register(srv *rpc.Server) {
	srv.Declare(func(v *mcp.Version, caps *mcp.ServerCapabilities) {
		if v.Tasks {
			caps.Tasks = &mcp.ServerTasks{
				List:      &mcp.Present{},
				Cancel:    &mcp.Present{},
				Requests:  &mcp.TaskRequests{},
				Streaming: &mcp.TaskStreaming{Partial: &mcp.Present{}},
				Responses: &mcp.TaskResponses{Modes: []mcp.ResponseMode{mcp.ModeTask, mcp.ModeImmediate, mcp.ModeStreaming}},
			}
		}
		if v.Stateless {
			// Exactly {}: with any key inside, the official client takes tasks for absent.
			caps.Extensions = map[string]mcp.Present{mcp.ExtensionTasks: {}, mcp.ExtensionTaskPartials: {}}
		}
	})
	r.registerStateless(srv)
	srv.Handle(rpc.Handshake, "tasks/get", r.limited(withTask(r.getTask)))
	srv.Handle(rpc.Handshake, "tasks/result", r.limited(withTask(r.taskResult)))
	srv.Handle(rpc.Handshake, "tasks/cancel", r.limited(withTask(r.cancelTask)))
	srv.Handle(rpc.Handshake, "runnel/tasks/variables", r.limited(withTasks(r.setVariables)))
	srv.Handle(rpc.Handshake, "tasks/list", r.limited(withTasks(r.listTasks)))
}

// limited counts a request about tasks against the limit.
func (r *Runner) limited(h rpc.Handler) rpc.Handler {
	return func(ctx context.Context, c *rpc.Caller, params json.RawMessage) (any, error) {
		if !r.requests.take() {
			return nil, r.refuse("", "", RefusedRequests, r.o.tooManyRequests())
		}
		return h(ctx, c, params)
	}
}

// withTasks refuses a method in sessions of versions that do not have it. Who sends one in another session can do tasks.
func withTasks(h rpc.Handler) rpc.Handler {
	return func(ctx context.Context, c *rpc.Caller, params json.RawMessage) (any, error) {
		if !c.Version.Tasks {
			return nil, rpc.Errorf(mcp.CodeMethodNotFound, "protocol version %s has no tasks", c.Version.Name)
		}
		Used(c).Set()
		return h(ctx, c, params)
	}
}

// withTask reads the task id that a method is about.
func withTask(h func(ctx context.Context, c *rpc.Caller, p mcp.TaskParams) (any, error)) rpc.Handler {
	return withTasks(func(ctx context.Context, c *rpc.Caller, params json.RawMessage) (any, error) {
		var p mcp.TaskParams
		if err := rawjson.Unmarshal(params, &p); err != nil || p.TaskID == "" {
			return nil, rpc.Errorf(mcp.CodeInvalidParams, "params.taskId must be a task's id")
		}
		return h(ctx, c, p)
	})
}

// Handle is the answer to the task-augmented request that started the run.
func (r *Run) Handle() mcp.CreateTaskResult {
	// The status of a handle is working, whatever happened since ("Task Status Lifecycle":
	// tasks begin in the working status); what came after it is told after it.
	t := r.Task()
	t.Status, t.StatusMessage, t.UpdatedAt = mcp.TaskWorking, "", t.CreatedAt
	return mcp.CreateTaskResult{
		Task: t.wire(r.runner.o.PollInterval),
		Meta: map[string]any{mcp.MetaModelResponse: fmt.Sprintf("%s runs as task %s. Its result comes when it is done.", t.Tool, t.ID)},
	}
}

func (r *Runner) getTask(ctx context.Context, _ *rpc.Caller, p mcp.TaskParams) (any, error) {
	t, err := r.Get(ctx, p.TaskID)
	if err != nil {
		return nil, WireError(err)
	}
	shown := t.wire(r.o.PollInterval)
	shown.Meta = WithVariables(nil, &t, 0)
	if t.Detached {
		shown.Meta = with(shown.Meta, mcp.MetaDetached, true)
	}
	return shown, nil
}

// taskResult answers with what the task's own request would have returned. "When a receiver receives a
// tasks/result request for a task in any other non-terminal status, it MUST block the response until the
// task reaches a terminal status" (basic/utilities/tasks, "Result Retrieval").
func (r *Runner) taskResult(ctx context.Context, c *rpc.Caller, p mcp.TaskParams) (any, error) {
	if len(p.LastSeqNr) > 0 {
		return r.resume(ctx, p)
	}
	if run := r.Running(p.TaskID); run != nil {
		defer run.relay(ctx, c)()
	}
	t, err := r.Await(ctx, p.TaskID)
	if err != nil {
		return nil, WireError(err)
	}
	r.TellRetrieved(t.ID)
	if t.Outcome.Err != nil {
		return nil, t.Outcome.Err
	}
	if !t.Merge {
		return t.Result().For(c.Version), nil
	}
	// Merged results are large, and stay in memory until the client has read up to them.
	select {
	case r.merging <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	done := func() { <-r.merging }
	return rpc.After{Result: t.Result().For(c.Version), Do: done, Drop: done}, nil
}

// Result is the result of a task that ended with one: the merged segments, if that is what it was asked for.
func (t *Task) Result() *mcp.CallToolResult {
	result := WithRelated(t.Outcome.Result, t.ID)
	if t.Merge {
		result.Content = nil // Unmarshal would write over the items that the outcome and the segments hold
		merged, cut := t.Segments.Merged(maxMerged)
		if err := json.Unmarshal(merged, &result.Content); err != nil {
			panic("internal error: merged segments: " + err.Error())
		}
		if cut {
			result.Content = append(result.Content, LinkLog(t))
		}
	}
	result.Meta = WithVariables(result.Meta, t, result.Size())
	return result
}

const (
	// maxMerged keeps a merged result below the 10 MiB that clients read.
	maxMerged = 8 << 20
	// maxMerging is how many of them are in memory at once.
	maxMerging = 2
	// maxResumed is how much content a response that resumes carries.
	maxResumed = mcp.MaxPage
	// maxSeqNr is beyond every segment, and one more does not overflow.
	maxSeqNr = 1 << 53
)

// resume answers tasks/result with lastSeqNr: it does not wait (SEP-1905, "Resuming Streaming").
func (r *Runner) resume(ctx context.Context, p mcp.TaskParams) (any, error) {
	last, err := strconv.ParseInt(string(p.LastSeqNr), 10, 64)
	if err != nil || last < 1 {
		return nil, rpc.Errorf(mcp.CodeInvalidParams, "params.lastSeqNr must be a positive integer: segments are numbered from 1")
	}
	t, err := r.Get(ctx, p.TaskID)
	if err != nil {
		return nil, WireError(err)
	}
	return t.Segments.Resume(min(last, maxSeqNr), t.ID, maxResumed), nil
}

func (r *Runner) cancelTask(ctx context.Context, _ *rpc.Caller, p mcp.TaskParams) (any, error) {
	t, err := r.Cancel(ctx, p.TaskID)
	if errors.Is(err, ErrEnded) {
		return nil, rpc.Errorf(mcp.CodeInvalidParams, "cannot cancel task: already in terminal status %q", t.Status)
	} else if err != nil {
		return nil, WireError(err)
	}
	return t.wire(r.o.PollInterval), nil
}

// Cancel cancels a task of the owner. It returns the task as it is then, with ErrEnded if it had ended before.
func (r *Runner) Cancel(ctx context.Context, id string) (Task, error) {
	if run := r.Running(id); run != nil {
		if !run.endsWithin(ctx, r.o.AskTimeout) {
			return run.Task(), ErrEnding
		}
		if run.Cancel("cancelled by the client") && !run.detached.IsSet() {
			return run.Task(), nil
		}
	}
	t, err := r.Get(ctx, id)
	switch {
	case err != nil:
	case t.Status.Terminal():
		err = ErrEnded
	default:
		t, err = r.cancelElsewhere(ctx, id)
	}
	return t, err
}

func (r *Runner) listTasks(ctx context.Context, _ *rpc.Caller, params json.RawMessage) (any, error) {
	cursor, err := rpc.Cursor(params)
	if err != nil {
		return nil, err
	}
	page, next, err := r.List(ctx, cursor, pageSize)
	if err != nil {
		return nil, WireError(err)
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
	tied.Meta = Related(id)
	maps.Copy(tied.Meta, result.Meta)
	return &tied
}

// WireError is the one place where an error of this room gets its code.
func WireError(err error) error {
	switch {
	case errors.Is(err, ErrNotFound):
		return rpc.Errorf(mcp.CodeInvalidParams, "task not found: it is unknown or has expired")
	case errors.Is(err, ErrCursor):
		return rpc.Errorf(mcp.CodeInvalidParams, "invalid cursor: use the nextCursor of the page before, or none")
	case errors.As(err, new(Trouble)) || errors.Is(err, ErrAsked) || errors.Is(err, ErrEnding): // somebody has to do something about it
		return rpc.Errorf(mcp.CodeInternalError, "%v", err)
	default:
		return err
	}
}
