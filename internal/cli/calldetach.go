package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"runnel/rpc/mcp"
)

// detachPoll is how often a call looks whether its task goes on by itself: it may have to be confirmed before.
const detachPoll = 50 * time.Millisecond

// detached calls a tool as a task and prints its id when it goes on without this process.
func (c *call) detached(wanted context.Context) error {
	ctx := context.WithoutCancel(wanted) // who is interrupted learns what there is to cancel
	var handle mcp.CreateTaskResult
	err := c.client.Call(ctx, "tools/call", map[string]any{
		"name": c.tool.Name, "arguments": c.arguments,
		"task": mcp.TaskMetadata{TTL: json.RawMessage("null")}, // the longest: nobody waits for it
	}, &handle)
	if err != nil {
		return fmt.Errorf("%s: %w", c.tool.Name, err)
	}
	id := mcp.TaskParams{TaskID: handle.Task.TaskID}
	for {
		var t struct {
			mcp.Task
			Meta struct {
				Detached bool `json:"runnel/detached"`
			} `json:"_meta"`
		}
		if err := c.client.Call(ctx, "tasks/get", id, &t); err != nil {
			return fmt.Errorf("%s: %w", c.tool.Name, err)
		}
		switch {
		case wanted.Err() != nil:
			return errors.Join(context.Cause(wanted), c.client.Call(ctx, "tasks/cancel", id, nil))
		case t.Meta.Detached:
			c.written(c.view.Content(t.TaskID + "\n"))
			return nil
		case t.Status.Terminal():
			return fmt.Errorf("%s: %s", c.tool.Name, t.StatusMessage)
		}
		select {
		case <-time.After(detachPoll):
		case <-wanted.Done():
		}
	}
}
