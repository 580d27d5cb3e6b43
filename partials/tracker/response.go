package tracker

import (
	"bytes"
	"cmp"
	"encoding/json"

	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

// Answer is the kind of a response to the call.
// Tracker.Response returns it, so that the caller knows whether to wait, to poll or to ask its user.
type Answer uint8

// The kinds of answers.
const (
	AnswerResult Answer = iota // the result, or anything but the others
	AnswerHandle               // a task, which gets its result in other ways
	// segments of SEP-1905, with or without the task; more responses may follow with the same id.
	AnswerSegments
	AnswerQuestion // input_required: send the call again, with answers
)

// Response takes a result of the call, the first or a later one, and returns its kind.
// Call it with every result that has the id of the call.
func (t *Tracker) Response(result json.RawMessage) Answer {
	t.mu.Lock()
	defer t.mu.Unlock()
	var kind mcp.ResultType
	var own, inside handle // of the task that the result is, or that it holds
	var segmented, failed bool
	var related string
	// encoding/json would decode all of a large result to skip it.
	for it := rawjson.Over(result); it.Next(); {
		switch string(it.Name) {
		case "resultType":
			kind = mcp.ResultType(rawjson.Unquote(it.Value))
		case "task":
			inside = handleIn(it.Value)
		case "partial-content":
			segmented = true
		case "isError":
			failed = string(it.Value) == "true"
		case "_meta":
			related = rawjson.StringMember(rawjson.Member(it.Value, mcp.MetaRelatedTask), "taskId")
		}
	}
	if kind == mcp.ResultTask {
		own = handleIn(result)
	}
	switch {
	case kind == mcp.ResultInputRequired:
		return AnswerQuestion
	case own.id != "":
		t.follow(own.id)
		t.status(own.status, own.message)
		return AnswerHandle
	case segmented:
		t.follow(cmp.Or(inside.id, related)) // "Extract the taskId from either the task object or _meta"
		t.segments(result)
		return AnswerSegments
	case inside.id != "":
		t.follow(inside.id)
		t.status(inside.status, inside.message)
		return AnswerHandle
	}
	if t.end == Running && t.taskID == "" {
		t.finish(Done, "")
		if failed {
			t.end = Failed
		}
	}
	return AnswerResult
}

// handle is what a response says of a task. A member of the wrong type reads as absent.
type handle struct {
	id, message string
	status      mcp.TaskStatus
}

func handleIn(task []byte) handle {
	status := mcp.TaskStatus(rawjson.StringMember(task, "status"))
	return handle{rawjson.StringMember(task, "taskId"), rawjson.StringMember(task, "statusMessage"), status}
}

// Handle sets the id of the call's task.
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
