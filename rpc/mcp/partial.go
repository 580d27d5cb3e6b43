package mcp

import "encoding/json"

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
