package methods

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tasks"
)

// pageSize is how many tasks a tasks/list result shows.
const pageSize = 50

func (m *methods) getTask(ctx context.Context, c *rpc.Caller, p mcp.TaskParams) (any, error) {
	return m.BeforeTheEnd(c, p.TaskID, func() (any, error) { return m.head(ctx, p.TaskID) })
}

// head returns the result of tasks/get in the handshake era.
func (m *methods) head(ctx context.Context, id string) (any, error) {
	t, err := m.Head(ctx, id)
	if err != nil {
		return nil, tasks.WireError(err)
	}
	shown := m.Wire(&t)
	shown.Meta = tasks.WithVariables(nil, &t, 0)
	if t.Detached {
		if shown.Meta == nil {
			shown.Meta = map[string]any{}
		}
		shown.Meta[mcp.MetaDetached] = true
	}
	return shown, nil
}

// maxMerging is how many merged results are in memory at once.
const maxMerging = 2

// taskResult answers with what the task's own request would have returned. "When a receiver receives a
// tasks/result request for a task in any other non-terminal status, it MUST block the response until the task
// reaches a terminal status" (basic/utilities/tasks, "Result Retrieval").
func (m *methods) taskResult(ctx context.Context, c *rpc.Caller, p mcp.TaskParams) (any, error) {
	if len(p.LastSeqNr) > 0 {
		return m.resume(ctx, p)
	}
	v, release, err := m.Follow(ctx, p.TaskID)
	if err != nil {
		return nil, tasks.WireError(err)
	}
	defer release()
	defer v.Relay(ctx, c)()
	t, err := m.AwaitView(ctx, p.TaskID, v)
	expired := errors.Is(err, tasks.ErrNotFound) && t.Status.Terminal() // during the wait
	if err != nil && !expired {
		return nil, tasks.WireError(err)
	}
	if t.Outcome.Err != nil {
		m.RecordRetrieved(t.ID)
		return nil, t.Outcome.Err
	}
	done := func() {}
	if t.Merge { // merged results are large, and stay in memory until the client has read them
		select {
		case m.merging <- struct{}{}:
			done = func() { <-m.merging }
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	result, err := t.Result()
	if err != nil {
		done()
		return nil, err
	}
	m.RecordRetrieved(t.ID)
	return rpc.After{Result: result.For(c.Version), Do: done, Drop: done}, nil
}

const (
	// maxResumed limits the content of a response to tasks/result with lastSeqNr.
	maxResumed = mcp.MaxPage
	// maxSeqNr is larger than any segment number, and adding one to it does not overflow.
	maxSeqNr = 1 << 53
)

// resume answers tasks/result with lastSeqNr, without waiting (SEP-1905, "Resuming Streaming").
func (m *methods) resume(ctx context.Context, p mcp.TaskParams) (any, error) {
	last, err := strconv.ParseInt(string(p.LastSeqNr), 10, 64)
	if err != nil || last < 1 {
		return nil, rpc.Errorf(mcp.CodeInvalidParams,
			"params.lastSeqNr must be a positive integer: segments are numbered from 1")
	}
	t, err := m.Get(ctx, p.TaskID)
	if err != nil {
		return nil, tasks.WireError(err)
	}
	resumed, err := t.Segments.Resume(min(last, maxSeqNr), t.ID, maxResumed)
	if err != nil {
		return nil, tasks.Unreadable(err)
	}
	return resumed, nil
}

func (m *methods) cancelTask(ctx context.Context, _ *rpc.Caller, p mcp.TaskParams) (any, error) {
	t, err := m.CancelWithReason(ctx, p.TaskID, p.Meta.Reason)
	if errors.Is(err, tasks.ErrEnded) {
		return nil, rpc.Errorf(mcp.CodeInvalidParams,
			"cannot cancel task: already in terminal status %q", t.Status)
	} else if err != nil {
		return nil, tasks.WireError(err)
	}
	return m.Wire(&t), nil
}

func (m *methods) listTasks(ctx context.Context, _ *rpc.Caller, params json.RawMessage) (any, error) {
	// They fit, even if every statusMessage consists of control characters.
	const _ = uint(mcp.MaxContent - pageSize*(6*tasks.MaxStatusMessage+1<<10))
	cursor, err := rpc.Cursor(params)
	if err != nil {
		return nil, err
	}
	page, next, err := m.List(ctx, cursor, pageSize)
	if err != nil {
		return nil, tasks.WireError(err)
	}
	result := mcp.ListTasksResult{Tasks: make([]mcp.Task, len(page)), NextCursor: next}
	for i, t := range page {
		result.Tasks[i] = m.Wire(&t)
	}
	return result, nil
}
