package tasks

import (
	"fmt"
	"slices"

	"runnel/rpc/mcp"
)

// transitions are the moves a task may make (2025-11-25 basic/utilities/tasks, "Task Status Lifecycle").
// A move to the status it has is none: it is refused like any other that is not here.
var transitions = map[mcp.TaskStatus][]mcp.TaskStatus{
	mcp.TaskWorking:       {mcp.TaskInputRequired, mcp.TaskCompleted, mcp.TaskFailed, mcp.TaskCancelled},
	mcp.TaskInputRequired: {mcp.TaskWorking, mcp.TaskCompleted, mcp.TaskFailed, mcp.TaskCancelled},
	mcp.TaskCompleted:     nil, // "Tasks with a completed, failed, or cancelled status are in a terminal state and MUST NOT transition"
	mcp.TaskFailed:        nil,
	mcp.TaskCancelled:     nil,
}

// checkMove returns an error if a task may not go from one status to the other.
func checkMove(from, to mcp.TaskStatus) error {
	if slices.Contains(transitions[from], to) {
		return nil
	}
	return fmt.Errorf("task status cannot change: %s to %s", from, to)
}
