package tasks

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"runnel/partials"
	"runnel/rpc"
	"runnel/rpc/mcp"
)

// Task is the record of one task: what a Store keeps and what every answer about the task is made of.
type Task struct {
	ID            string
	Owner         string
	Tool          string
	Status        mcp.TaskStatus
	StatusMessage string // maxStatusMessage bytes at most
	CreatedAt     time.Time
	UpdatedAt     time.Time
	TTL           time.Duration // from CreatedAt
	Outcome       *Outcome      // nil until the task has ended
	Log           *partials.Log // the tool's output
	Segments      *partials.Segments
	Variables     json.RawMessage // an object (variables.go); nil if there are none
	Arguments     json.RawMessage // of the call; nil if they are not known. They do not change
	Progress      Progress        // the last that the tool has said. Not stored
	Merge         bool            // the result is the merged segments (SEP-1905 streaming)
	Detached      bool            // a supervisor or a worker runs it, which outlives runnel
	Waiting       bool            // it waits for a worker (Queue)
	Worker        string          // the host of the worker that runs it; "" = no worker does
	Attempt       int             // how often workers have begun it

	Ending bool // its work is done: a state takes it beyond the limits of live tasks and of starts. Not stored
}

// Progress is how far a tool says that it has come.
type Progress struct {
	Done    float64 `json:"done,omitempty"` // 0: not said
	Total   float64 `json:"total,omitempty"`
	Message string  `json:"message,omitempty"`
}

// Outcome is how a task ended: a result (also one with isError) or a JSON-RPC error, never both.
type Outcome struct {
	Result *mcp.CallToolResult
	Err    *rpc.Error
}

// transitions are the moves a task may make (2025-11-25 basic/utilities/tasks, "Task Status Lifecycle").
// A move to the status that a task has already is refused like any other that is not here.
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

// Expired reports whether the task has ended and its ttl is over: from then on it counts as unknown. While it works it can be seen,
// also at the end of its ttl, when it is stopped.
func (t *Task) Expired(now time.Time) bool {
	return t.Status.Terminal() && !now.Before(t.CreatedAt.Round(0).Add(t.TTL)) // by the wall clock
}

// NewID makes a task's id: a random UUID whose first 16 bits are the clock's milliseconds. So ids of one moment stand beside each
// other in a state's index, where each would change a page of its own; 106 random bits are left to be the secret.
func NewID(now time.Time) string {
	id := uuid.New()
	ms := now.UnixMilli()
	id[0], id[1] = byte(ms>>8), byte(ms)
	return id.String()
}

// maxStatusMessage bounds statusMessage: hosts show it in one place, and it is repeated in every status.
const maxStatusMessage = 2 << 10

// Clip cuts a message to maxStatusMessage bytes, between characters.
func Clip(s string) string { return strings.ToValidUTF8(s[:min(len(s), maxStatusMessage)], "") }
