package mcp

import (
	"encoding/json"
)

// TaskStatus is the status of a task.
type TaskStatus string

// The statuses of a task; the last three are terminal.
const (
	TaskWorking       TaskStatus = "working"
	TaskInputRequired TaskStatus = "input_required"
	TaskCompleted     TaskStatus = "completed"
	TaskFailed        TaskStatus = "failed"
	TaskCancelled     TaskStatus = "cancelled"
)

// Terminal reports whether a task with this status has ended.
func (s TaskStatus) Terminal() bool {
	return s == TaskCompleted || s == TaskFailed || s == TaskCancelled
}

// TaskMetadata is the "task" member of a task-augmented request. TTL is in milliseconds;
// it is kept encoded because clients send it as a number, as null, or not at all.
type TaskMetadata struct {
	TTL json.RawMessage `json:"ttl,omitempty"`
	// SEP-1905; nil = the client does not use it.
	ResponseModes []ResponseMode `json:"responseModes,omitempty"`
}

// Task is a task as clients of 2025-11-25 see it.
type Task struct {
	TaskID        string     `json:"taskId"`
	Status        TaskStatus `json:"status"`
	StatusMessage string     `json:"statusMessage,omitempty"`
	CreatedAt     string     `json:"createdAt"`              // RFC 3339
	LastUpdatedAt string     `json:"lastUpdatedAt"`          // RFC 3339
	TTL           *int64     `json:"ttl"`                    // milliseconds from creation; null = unlimited
	PollInterval  int64      `json:"pollInterval,omitempty"` // milliseconds

	Meta map[string]any `json:"_meta,omitempty"` // in the result of tasks/get
}

// CreateTaskResult is the handle: the answer to a task-augmented request.
type CreateTaskResult struct {
	Task Task           `json:"task"`
	Meta map[string]any `json:"_meta,omitempty"`
}

// TaskParams are the params of tasks/get, tasks/result and tasks/cancel. Other members are ignored: the
// TypeScript SDK repeats the task's metadata there.
type TaskParams struct {
	TaskID string `json:"taskId"`
	// tasks/result only (SEP-1905, "Resuming Streaming").
	LastSeqNr json.RawMessage `json:"lastSeqNr,omitempty"`
	Meta      CancelMeta      `json:"_meta,omitzero"` // tasks/cancel only
}

// CancelMeta is the _meta of "tasks/cancel", which has no room for a reason, unlike notifications/cancelled.
type CancelMeta struct {
	Reason string `json:"runnel/reason,omitempty"`
}

// ListTasksResult answers "tasks/list".
type ListTasksResult struct {
	Tasks      []Task `json:"tasks"`
	NextCursor string `json:"nextCursor,omitempty"`
}

// Keys of _meta that concern tasks.
const (
	// MetaVariables holds a task's variables. A task-augmented call sets them with it.
	MetaVariables = "runnel/variables"
	// MetaVariablesBytes replaces it in an answer that has no room for the variables, and gives their length.
	MetaVariablesBytes = "runnel/variablesBytes"
	// MetaTask names the task that a tool's result is about: in the result of a call that was handed over,
	// and of the fallback tools.
	MetaTask = "runnel/task"
	// MetaTasks is MetaTask for list_tasks.
	MetaTasks = "runnel/tasks"
	// MetaDetached is true on a task that outlives the runnel that started it.
	MetaDetached = "runnel/detached"
)

// RelatedTask is the value of _meta["io.modelcontextprotocol/related-task"].
type RelatedTask struct {
	TaskID string `json:"taskId"`
}

// TaskPartial is the params of notifications/tasks/partial (SEP-2679, 1.2).
type TaskPartial struct {
	TaskID  string            `json:"taskId"`
	Content []json.RawMessage `json:"content"`
	Seq     int64             `json:"seq"`
}

// PartialToolResult is the params of notifications/tools/partial_result (SEP-2998).
type PartialToolResult struct {
	Token   json.RawMessage   `json:"partialResultToken"`
	Seq     int64             `json:"seq"`
	Content []json.RawMessage `json:"content"`
	Final   bool              `json:"final"`
}
