package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"runnel/internal/pause"
	"runnel/rpc"
	"runnel/rpc/mcp"
)

// detachPoll is how often a call checks whether its task is detached yet: the user may have to confirm it
// first.
const detachPoll = 50 * time.Millisecond

// endedBefore is the exit code of a task that ended before it was detached: its program is not there, say.
func endedBefore(ctx context.Context, client *rpc.Client, id mcp.TaskParams) int {
	var r mcp.CallToolResult
	if client.Call(ctx, "tasks/result", id, &r) == nil {
		if err := exitOf(&r); err != nil {
			return exitCodeOf(err)
		}
	}
	return exitFailure
}

// detach calls a tool as a task and returns the task's id once it runs on without this process.
func detach(wanted context.Context, client *rpc.Client, tool string,
	arguments json.RawMessage) (string, error) {
	ctx := context.WithoutCancel(wanted) // an interrupted call must still learn which task to cancel
	var handle mcp.CreateTaskResult
	err := client.Call(ctx, "tools/call", map[string]any{
		"name": tool, "arguments": arguments,
		// The ttl is the longest that the server allows, since no client waits for the task.
		"task": mcp.TaskMetadata{TTL: json.RawMessage("null")},
	}, &handle)
	if err != nil {
		return "", fmt.Errorf("%s: %w", tool, err)
	}
	id := mcp.TaskParams{TaskID: handle.Task.TaskID}
	for {
		var t struct {
			mcp.Task
			Meta struct {
				Detached bool `json:"runnel/detached"`
			} `json:"_meta"`
		}
		if err := client.Call(ctx, "tasks/get", id, &t); err != nil {
			return "", fmt.Errorf("%s: %w", tool, err)
		}
		switch {
		case wanted.Err() != nil:
			return "", errors.Join(context.Cause(wanted), client.Call(ctx, "tasks/cancel", id, nil))
		case t.Meta.Detached:
			return t.TaskID, nil
		case t.Status.Terminal():
			return "", &failure{fmt.Errorf("%s: %s", tool, t.StatusMessage), endedBefore(ctx, client, id)}
		}
		pause.For(wanted, detachPoll)
	}
}
