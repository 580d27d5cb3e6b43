package tracker

import (
	"bytes"
	"encoding/json"

	"runnel/rpc/mcp"
)

// Answer is the kind of a response to the call.
// Tracker.Response returns it, so that the caller knows whether to wait, to poll or to ask its user.
type Answer uint8

// The kinds of answers.
const (
	AnswerResult   Answer = iota // the result, or anything but the others
	AnswerHandle                 // a task, which gets its result in other ways
	AnswerSegments               // segments of SEP-1905, with or without the task; more responses may follow with the same id
	AnswerQuestion               // input_required: send the call again, with answers
)

// Response takes a result of the call, the first or a later one, and returns its kind.
// Call it with every result that has the id of the call.
func (t *Tracker) Response(result json.RawMessage) Answer {
	t.mu.Lock()
	defer t.mu.Unlock()
	var r struct {
		ResultType mcp.ResultType  `json:"resultType"`
		TaskID     string          `json:"taskId"`
		Status     mcp.TaskStatus  `json:"status"`
		Message    string          `json:"statusMessage"`
		Task       *mcp.Task       `json:"task"`
		Segments   json.RawMessage `json:"partial-content"`
		IsError    bool            `json:"isError"`
		Meta       struct {
			Related mcp.RelatedTask `json:"io.modelcontextprotocol/related-task"`
		} `json:"_meta"`
	}
	_ = json.Unmarshal(result, &r) // a member of the wrong type reads as absent
	switch {
	case r.ResultType == mcp.ResultInputRequired:
		return AnswerQuestion
	case r.ResultType == mcp.ResultTask && r.TaskID != "":
		t.follow(r.TaskID)
		t.status(r.Status, r.Message)
		return AnswerHandle
	case r.Segments != nil:
		// "Extract the taskId from either the task object or _meta"
		id := r.Meta.Related.TaskID
		if r.Task != nil {
			id = r.Task.TaskID
		}
		t.follow(id)
		t.segments(result)
		return AnswerSegments
	case r.Task != nil && r.Task.TaskID != "":
		t.follow(r.Task.TaskID)
		t.status(r.Task.Status, r.Task.StatusMessage)
		return AnswerHandle
	}
	if t.end == Running && t.taskID == "" {
		t.finish(Done, "")
		if r.IsError {
			t.end = Failed
		}
	}
	return AnswerResult
}

// Handle sets the id of the call's task.
// Call it if the id comes in another way than in a response of the call.
func (t *Tracker) Handle(taskID string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.follow(taskID)
}

func (t *Tracker) follow(id string) {
	if id == "" || t.taskID != "" {
		return
	}
	t.taskID = id
	early := t.early
	t.early = nil
	for _, m := range early {
		t.notification(m.method, m.params) // those of other calls are ignored
	}
}

// keep keeps a notification about a task until it is known whether the task is the call's.
func (t *Tracker) keep(method string, params []byte) {
	if t.size += len(params) + messageBytes; t.end == Running && t.size <= t.bound {
		t.early = append(t.early, earlyMessage{method, bytes.Clone(params)})
	}
}
