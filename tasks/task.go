package tasks

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"runnel/internal/shorten"
	"runnel/partials"
	"runnel/rpc"
	"runnel/rpc/mcp"
)

// Task is the record of one task: a Store keeps it, and every answer about the task is made from it.
// Store.Get returns one.
type Task struct {
	ID            string
	Owner         string
	Tool          string
	Client        string // clientInfo.name of the host that made the call; "" = not known, or runnel call
	Status        mcp.TaskStatus
	StatusMessage string // MaxStatusMessage bytes at most
	CreatedAt     time.Time
	UpdatedAt     time.Time
	TTL           time.Duration // from CreatedAt
	Outcome       *Outcome      // nil until the task has ended
	Log           *partials.Log // the tool's output
	Segments      *partials.Segments
	Variables     json.RawMessage // an object (variables.go); nil if there are none
	Arguments     json.RawMessage // of the call; they do not change; nil if they are not known
	Progress      Progress        // the last that the tool has reported; stored as a note (variables.go)
	Times         Times           // when the output came; stored as a note, too
	Matches       Matches         // what the tool has found in its output; stored as a note, too
	Password      *PasswordPrompt // what it asks a password with, while it does; stored as a note, too
	Merge         bool            // the result is the merged segments (SEP-1905 streaming)
	Detached      bool            // a supervisor or a worker runs it, which outlives runnel
	Waiting       bool            // it waits for a worker (Queue)
	Worker        string          // the host of the worker that runs it; "" if none does
	Attempt       int             // how many times workers have begun it

	Hidden bool // it has no handle: clients do not find it (Store.Put)
	Ending bool // its work is done, so the limits on live tasks and starts do not apply; not stored
}

// Progress is how far a tool has come, as it reports it.
type Progress struct {
	Done    float64 `json:"done,omitempty"` // 0: unknown
	Total   float64 `json:"total,omitempty"`
	Message string  `json:"message,omitempty"`
}

// Outcome is how a task ended: with a result (possibly one with isError) or with a JSON-RPC error, never
// both. Task.Outcome holds it.
type Outcome struct {
	Result *mcp.CallToolResult
	Err    *rpc.Error
	// Interrupted says that the task has failed because the process that ran it has ended.
	Interrupted bool
}

// transitions are the status changes that a task may make (2025-11-25 basic/utilities/tasks, "Task Status
// Lifecycle"). All others are refused, even one to the present status.
var transitions = map[mcp.TaskStatus][]mcp.TaskStatus{
	mcp.TaskWorking:       {mcp.TaskInputRequired, mcp.TaskCompleted, mcp.TaskFailed, mcp.TaskCancelled},
	mcp.TaskInputRequired: {mcp.TaskWorking, mcp.TaskCompleted, mcp.TaskFailed, mcp.TaskCancelled},
	// "Tasks with a completed, failed, or cancelled status are in a terminal state and MUST NOT transition".
	mcp.TaskCompleted: nil,
	mcp.TaskFailed:    nil,
	mcp.TaskCancelled: nil,
}

// CheckMove returns an error if a task must not change from one status to the other.
func CheckMove(from, to mcp.TaskStatus) error {
	if slices.Contains(transitions[from], to) {
		return nil
	}
	return fmt.Errorf("task status cannot change: %s to %s", from, to)
}

// Expired reports whether the task has ended and its ttl is over: from then on it counts as unknown. A
// working task stays visible: it is stopped at the end of its ttl.
// A state calls it before it returns a task.
func (t *Task) Expired(now time.Time) bool {
	return t.Status.Terminal() && !now.Before(t.CreatedAt.Round(0).Add(t.TTL)) // by the wall clock
}

// NewID makes a task's id: a random UUID whose first 16 bits are milliseconds of the clock. Ids made at one
// time are therefore neighbours in a state's index, instead of each changing another page; 106 random bits
// remain to keep the id secret.
func NewID(now time.Time) string {
	id := uuid.New()
	ms := now.UnixMilli()
	id[0], id[1] = byte(ms>>8), byte(ms)
	return id.String()
}

// MaxStatusMessage limits statusMessage, in bytes: every status repeats it.
const MaxStatusMessage = 2 << 10

// Clip shortens a message to MaxStatusMessage bytes.
func Clip(message string) string { return shorten.Clip(message, MaxStatusMessage) }

// Sample says how many bytes of output a task had at an age.
// Times hold them.
type Sample struct {
	At    time.Duration
	Bytes int64
}

// Times are samples of a task's output, in order: one for each time at which it had grown. Between two
// samples far apart the task was silent.
type Times []Sample

// MarshalJSON encodes the samples as they are stored: milliseconds and bytes in turn, each as the difference
// from the sample before.
func (s Times) MarshalJSON() ([]byte, error) {
	numbers := make([]int64, 0, 2*len(s))
	at, bytes := int64(0), int64(0)
	for _, sample := range s {
		ms := sample.At.Milliseconds()
		numbers = append(numbers, ms-at, sample.Bytes-bytes)
		at, bytes = ms, sample.Bytes
	}
	return json.Marshal(numbers)
}

// UnmarshalJSON decodes what MarshalJSON has encoded. Damaged samples read as none.
func (s *Times) UnmarshalJSON(text []byte) error {
	var numbers []int64
	if json.Unmarshal(text, &numbers) != nil {
		return nil
	}
	var sample Sample
	for n := 0; n+1 < len(numbers) && numbers[n] >= 0 && numbers[n+1] > 0; n += 2 {
		sample.At += time.Duration(numbers[n]) * time.Millisecond
		sample.Bytes += numbers[n+1]
		*s = append(*s, sample)
	}
	return nil
}
