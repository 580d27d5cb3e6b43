package tasks

import (
	"encoding/json"
	"time"
	"unicode/utf8"

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
	Log           *partials.Log // what the tool wrote
	Segments      *partials.Segments
	Variables     json.RawMessage // an object (variables.go); nil if there are none
	Merge         bool            // the result is the merged segments (SEP-1905 streaming)
	Detached      bool            // a supervisor runs it, which outlives runnel

	Ending bool // its work is done: a store takes it beyond the limits of live tasks and of starts. Not stored
}

// Outcome is how a task ended: a result (also one with isError) or a JSON-RPC error, never both.
type Outcome struct {
	Result *mcp.CallToolResult
	Err    *rpc.Error
}

// maxStatusMessage bounds statusMessage: hosts show it in one place, and it is repeated in every status.
const maxStatusMessage = 2 << 10

// Expired reports whether the task has ended and its ttl is over: from then on it is as good as unknown. While it works it can be seen,
// also at the end of its ttl, when it is stopped.
func (t *Task) Expired(now time.Time) bool {
	return t.Status.Terminal() && !now.Before(t.CreatedAt.Round(0).Add(t.TTL)) // by the wall clock
}

// wire is the task as a client of 2025-11-25 sees it.
func (t *Task) wire(pollInterval time.Duration) mcp.Task {
	ttl := t.TTL.Milliseconds()
	return mcp.Task{
		TaskID:        t.ID,
		Status:        t.Status,
		StatusMessage: t.StatusMessage,
		CreatedAt:     t.CreatedAt.UTC().Format(time.RFC3339Nano),
		LastUpdatedAt: t.UpdatedAt.UTC().Format(time.RFC3339Nano),
		TTL:           &ttl,
		PollInterval:  pollInterval.Milliseconds(),
	}
}

// Related is the _meta that ties a message to its task: "io.modelcontextprotocol/related-task" (2025-11-25).
func Related(id string) map[string]any {
	return map[string]any{mcp.MetaRelatedTask: mcp.RelatedTask{TaskID: id}}
}

// Clip cuts a message to maxStatusMessage bytes, between characters.
func Clip(s string) string {
	n := maxStatusMessage
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
