package tracker

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strconv"

	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

// Notification takes a notification from the server, and reports whether it belongs to the call.
// Call it with every notification of the connection.
func (t *Tracker) Notification(method string, params json.RawMessage) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.notification(method, params)
}

func (t *Tracker) notification(method string, params []byte) bool {
	switch method {
	case "notifications/tools/partial_result":
		return t.toolResult(params)
	case "notifications/progress":
		return t.progress(params)
	case "notifications/tasks/partial", "notifications/tasks/status", "notifications/tasks":
		switch {
		case t.taskID == "":
			t.keep(method, params)
		case method == "notifications/tasks/partial":
			return t.partial(params)
		default:
			var s mcp.Task
			_ = json.Unmarshal(params, &s) // a member of the wrong type reads as absent
			if s.TaskID == t.taskID {
				t.status(s.Status, s.StatusMessage)
				return true
			}
		}
	}
	return false
}

// partial takes a notification of SEP-2679.
func (t *Tracker) partial(params []byte) bool {
	p := mcp.TaskPartial{Seq: -1}
	for it := rawjson.Over(params); it.Next(); { // a member of the wrong type reads as absent
		switch string(it.Name) {
		case "taskId":
			p.TaskID = rawjson.Unquote(it.Value)
		case "seq":
			if n, err := strconv.ParseInt(string(it.Value), 10, 64); err == nil {
				p.Seq = n
			}
		case "content":
			for item := rawjson.Over(bytes.Clone(it.Value)); rawjson.IsArray(it.Value) && item.Next(); {
				p.Content = append(p.Content, item.Value)
			}
		}
	}
	switch {
	case p.TaskID != t.taskID:
		return false
	case p.Seq < 0 || p.Seq > maxNumber || len(p.Content) == 0:
		t.stats.Malformed++ // the next number shows the gap
	default:
		t.takeNumbered(sep2679, p.Seq, p.Content)
	}
	return true
}

// toolResult takes a notification of SEP-2998.
func (t *Tracker) toolResult(params []byte) bool {
	p := mcp.PartialToolResult{Seq: -1}
	_ = json.Unmarshal(params, &p)
	if len(t.o.Token) == 0 || !bytes.Equal(p.Token, t.o.Token) {
		return false
	}
	if p.Seq < 0 || p.Seq > maxNumber {
		t.stats.Malformed++
		return true
	}
	if p.Final && t.uses(sep2998) {
		t.seq.close(p.Seq)
	}
	t.takeNumbered(sep2998, p.Seq, p.Content)
	return true
}

// progress takes a progress notification, with or without a partial result (PR #383).
func (t *Tracker) progress(params []byte) bool {
	var token, partial []byte
	var progress float64
	var err error
	// Most have no partial result; decoding them would be a quarter of the cost of a notification.
	for it := rawjson.Over(params); it.Next(); {
		switch string(it.Name) {
		case "progressToken":
			token = it.Value
		case "progress":
			progress, err = strconv.ParseFloat(string(it.Value), 64)
		case "partialResult":
			partial = it.Value
		}
	}
	if len(t.o.Token) == 0 || !bytes.Equal(token, t.o.Token) {
		return false
	}
	var p *partialResult
	if err == nil && partial != nil {
		err = json.Unmarshal(partial, &p)
	}
	switch {
	case err != nil:
		t.stats.Malformed++
	case p == nil:
		t.seen.raise(progress)
	case t.uses(pr383):
		t.takePartialResult(progress, p)
	}
	return true
}

// partialResult is the content of a progress notification of PR #383.
type partialResult struct {
	Chunk struct {
		Content []json.RawMessage `json:"content"`
	} `json:"chunk"`
	Append bool `json:"append"`
	Last   bool `json:"lastChunk"`
}

// takePartialResult takes the content of PR #383 that came with a progress.
func (t *Tracker) takePartialResult(progress float64, p *partialResult) {
	if t.end != Running || t.last {
		t.stats.Late++
		return
	}
	// "The progress value MUST increase with each notification": one that does not increase is a duplicate,
	// or late.
	switch t.seen.take(progress) {
	case seenBefore:
		t.stats.Duplicates++
		return
	case tooLate:
		t.stats.Late++
		t.gap(Gap{From: t.seq.next, To: t.seq.next})
		return
	}
	if !t.begun && p.Append {
		t.gap(Gap{From: 0, To: 0}) // "append" means that there was something to append to
	}
	t.last = p.Last
	t.seq.next++ // chunks are counted, since their numbers rise by steps of any size
	t.emit(p.Chunk.Content, t.begun && !p.Append)
}

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
