package tools

import (
	"encoding/json"
	"fmt"
	"sync"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tools/text"
)

// taskMeta is what results about a task tell programs, in _meta.
type taskMeta struct {
	TaskID string         `json:"taskId"`
	Status mcp.TaskStatus `json:"status"`
	Next   int64          `json:"next"` // position in the log after the part that was shown
}

// fallbackParams are the arguments of all fallback tools. Numbers are floats, because 1.0 and 1e3 are
// integers for the schema.
type fallbackParams struct {
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
	TaskID    string          `json:"task_id"`
	WaitMs    *float64        `json:"wait_ms"`
	Cursor    string          `json:"cursor"`
	All       bool            `json:"all"`

	// Only send_to_task has these.
	Text string   `json:"text"`
	Keys []string `json:"keys"`
	EOF  bool     `json:"eof"`

	Screen bool `json:"screen"`

	// Only get_task_result has these.
	After   *float64 `json:"after"`
	Tail    float64  `json:"tail"`
	Grep    string   `json:"grep"`
	Until   string   `json:"until"` // also of start_task
	Context float64  `json:"context"`
}

// aboutTask makes a result about a task.
func aboutTask(text string, task taskMeta) *mcp.CallToolResult {
	r := mcp.Result(text)
	r.Meta = map[string]any{mcp.MetaTask: task}
	return r
}

// errNoTask refuses a task id that is unknown, expired or of another owner.
func errNoTask(id string) error { return fmt.Errorf("task %q is unknown or has expired", id) }

// reads are the positions up to which a session has read the output of its tasks.
type reads struct {
	mu     sync.Mutex
	places map[string]taskPlace
	oldest []string
}

// taskPlace is where the reading of a task continues.
type taskPlace struct {
	next  int64
	seen  tasks.Matches // what was shown of what the tool has found in its output
	ended bool          // the rest of the result, beyond the output, was shown as well
	gap   text.Gap      // what the last answer left out that did not show all
}

type readsKey struct{}

func readsOf(c *rpc.Caller) *reads {
	return c.SessionValue(readsKey{}, func() any { return &reads{places: map[string]taskPlace{}} }).(*reads)
}

func (r *reads) place(id string) taskPlace {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.places[id]
}

func (r *reads) set(id string, p taskPlace) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.places[id]; !known {
		if r.oldest = append(r.oldest, id); len(r.oldest) > maxReads {
			delete(r.places, r.oldest[0])
			r.oldest = r.oldest[1:]
		}
	}
	r.places[id] = p
}

const (
	// maxReads is how many tasks' positions a session keeps. The output of an older one starts again from its
	// beginning.
	maxReads = 1000
)
