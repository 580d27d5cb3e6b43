package tasks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"runnel/rpc"
	"runnel/rpc/mcp"
)

// pageSize is how many tasks a tasks/list result shows.
const pageSize = 50

// Handle returns the answer to the task-augmented request that started the run.
// Use it in the handshake era, and Created in the stateless one.
func (r *Run) Handle() mcp.CreateTaskResult {
	// A handle always shows the status working, even if that has changed since ("Task Status Lifecycle":
	// tasks begin in the working status); later statuses follow it.
	t := r.Task()
	t.Status = mcp.TaskWorking
	t.StatusMessage = ""
	t.UpdatedAt = t.CreatedAt
	return mcp.CreateTaskResult{
		Task: t.wire(r.runner.o.PollInterval),
		Meta: map[string]any{mcp.MetaModelResponse: fmt.Sprintf("%s runs as task %s. Its result comes when it is done.", t.Tool, t.ID)},
	}
}

// beforeTheEnd wraps an answer that shows a task: if it shows the task before its end, it is queued before
// the notification of that end. An answer that may be large, and so wait for the client, does not delay the
// end; nor does one in a batch, which may wait for other answers that wait for the end.
func (r *Runner) beforeTheEnd(c *rpc.Caller, id string, show func() (any, error)) (any, error) {
	v := r.view(id)
	if v == nil || c.InBatch() {
		return show()
	}
	v.answering.RLock()
	held := false
	defer func() {
		if !held {
			v.answering.RUnlock()
		}
	}()
	shown, err := show()
	if err != nil || OwnVariables(v.Task().Variables) != nil || len(v.Questions()) > 0 {
		return shown, err
	}
	held = true
	return rpc.After{Result: shown, Do: v.answering.RUnlock, Drop: v.answering.RUnlock}, nil
}

func (r *Runner) getTask(ctx context.Context, c *rpc.Caller, p mcp.TaskParams) (any, error) {
	return r.beforeTheEnd(c, p.TaskID, func() (any, error) { return r.head(ctx, p.TaskID) })
}

// head returns the result of tasks/get in the handshake era.
func (r *Runner) head(ctx context.Context, id string) (any, error) {
	t, err := r.Head(ctx, id)
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
// tasks/result request for a task in any other non-terminal status, it MUST block the response until the task
// reaches a terminal status" (basic/utilities/tasks, "Result Retrieval").
func (r *Runner) taskResult(ctx context.Context, c *rpc.Caller, p mcp.TaskParams) (any, error) {
	if len(p.LastSeqNr) > 0 {
		return r.resume(ctx, p)
	}
	v, release, err := r.Follow(ctx, p.TaskID)
	if err != nil {
		return nil, WireError(err)
	}
	defer release()
	defer v.relay(ctx, c)()
	t, err := r.await(ctx, p.TaskID, v)
	if err != nil {
		return nil, WireError(err)
	}
	if t.Outcome.Err != nil {
		r.RecordRetrieved(t.ID)
		return nil, t.Outcome.Err
	}
	done := func() {}
	if t.Merge { // merged results are large, and stay in memory until the client has read them
		select {
		case r.merging <- struct{}{}:
			done = func() { <-r.merging }
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	result, err := t.Result()
	if err != nil {
		done()
		return nil, err
	}
	r.RecordRetrieved(t.ID)
	return rpc.After{Result: result.For(c.Version), Do: done, Drop: done}, nil
}

const (
	// maxResumed limits the content of a response to tasks/result with lastSeqNr.
	maxResumed = mcp.MaxPage
	// maxSeqNr is larger than any segment number, and adding one to it does not overflow.
	maxSeqNr = 1 << 53
)

// resume answers tasks/result with lastSeqNr, without waiting (SEP-1905, "Resuming Streaming").
func (r *Runner) resume(ctx context.Context, p mcp.TaskParams) (any, error) {
	last, err := strconv.ParseInt(string(p.LastSeqNr), 10, 64)
	if err != nil || last < 1 {
		return nil, rpc.Errorf(mcp.CodeInvalidParams, "params.lastSeqNr must be a positive integer: segments are numbered from 1")
	}
	t, err := r.Get(ctx, p.TaskID)
	if err != nil {
		return nil, WireError(err)
	}
	resumed, err := t.Segments.Resume(min(last, maxSeqNr), t.ID, maxResumed)
	if err != nil {
		return nil, unreadable(err)
	}
	return resumed, nil
}

func (r *Runner) cancelTask(ctx context.Context, _ *rpc.Caller, p mcp.TaskParams) (any, error) {
	t, err := r.cancelWithReason(ctx, p.TaskID, p.Meta.Reason)
	if errors.Is(err, ErrEnded) {
		return nil, rpc.Errorf(mcp.CodeInvalidParams, "cannot cancel task: already in terminal status %q", t.Status)
	} else if err != nil {
		return nil, WireError(err)
	}
	return t.wire(r.o.PollInterval), nil
}

func (r *Runner) listTasks(ctx context.Context, _ *rpc.Caller, params json.RawMessage) (any, error) {
	const _ = uint(mcp.MaxContent - pageSize*(6*MaxStatusMessage+1<<10)) // they fit, even if every statusMessage consists of control characters
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
