package tasks

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

// Ask opens a question. It fails with ErrEnded.
func (r *Run) Ask(q *Question) error {
	r.door.Lock()
	defer r.door.Unlock()
	r.mu.Lock()
	if r.finishing {
		r.mu.Unlock()
		return ErrEnded
	}
	r.questions.last++
	q.run, q.number, q.answer = r, r.questions.last, make(chan json.RawMessage, 1)
	q.key = fmt.Sprintf("question-%d", q.number)
	if r.open == nil {
		r.open, r.questions.byKey = map[string]mcp.InputRequest{}, map[string]*Question{}
	}
	r.open[q.key] = q.Request
	r.questions.byKey[q.key] = q
	waits := r.task.Status == mcp.TaskInputRequired
	if waits {
		r.restate()
	}
	r.mu.Unlock()
	if waits {
		r.changes.Send()
	} else if err := r.move(mcp.TaskInputRequired, q.Message); err != nil {
		if _, last := q.forget(); last {
			_ = r.move(mcp.TaskWorking, "") // which cannot be stored either, but it is told
		}
		return err
	}
	select {
	case r.asked() <- struct{}{}:
	default:
	}
	if waits {
		r.storeRestated()
	}
	return nil
}

// Answered gives the answer, once: an encoded [mcp.ElicitResult].
func (q *Question) Answered() <-chan json.RawMessage { return q.answer }

// Close ends the question, answered or not. The task goes on when it was the last one.
func (q *Question) Close() error {
	q.closed.Set()
	q.run.door.Lock()
	defer q.run.door.Unlock()
	open, last := q.forget()
	if last {
		return q.run.move(mcp.TaskWorking, "")
	}
	if open {
		q.run.changes.Send()
	}
	q.run.storeRestated()
	return nil
}

// forget takes the question out of those that are open, and reports whether it was one, and whether the task waits for none any more.
func (q *Question) forget() (open, last bool) {
	r := q.run
	r.mu.Lock()
	defer r.mu.Unlock()
	if open = r.questions.byKey[q.key] == q; open {
		delete(r.open, q.key)
		delete(r.questions.byKey, q.key)
		r.restate()
	}
	return open, len(r.open) == 0 && r.task.Status == mcp.TaskInputRequired
}

// move moves the task between working and input_required, and announces it. The door is held.
func (r *Run) move(status mcp.TaskStatus, message string) error {
	r.mu.Lock()
	if r.finishing {
		r.mu.Unlock()
		return ErrEnded
	}
	if err := checkMove(r.task.Status, status); err != nil {
		r.mu.Unlock()
		return err
	}
	r.task.Status, r.task.StatusMessage, r.task.UpdatedAt = status, Clip(message), time.Now()
	t, handle := r.task, r.handle
	r.mu.Unlock()
	defer r.changes.Send()
	if !handle {
		return nil
	}
	if r.spec.Status != nil {
		r.spec.Status(t.wire(r.runner.o.PollInterval))
	}
	return r.runner.o.State.Put(r.ctx, t)
}

// restate makes the status say the first of the questions that are open now, when they have changed. r.mu is held.
func (r *Run) restate() {
	var first *Question
	for _, q := range r.questions.byKey {
		if first == nil || q.number < first.number {
			first = q
		}
	}
	if first != nil && r.task.Status == mcp.TaskInputRequired {
		r.task.StatusMessage, r.task.UpdatedAt = Clip(first.Message), time.Now()
	}
}

// storeRestated stores what restate has changed, which other processes read. No question fails for it: that it is asked has been stored.
// The door is held.
func (r *Run) storeRestated() {
	r.mu.Lock()
	t, shown := r.task, r.handle && !r.finishing && r.task.Status == mcp.TaskInputRequired
	r.mu.Unlock()
	if shown {
		_ = r.runner.o.State.Put(r.ctx, t)
	}
}

// Asked receives when a question was opened.
func (r *Run) Asked() <-chan struct{} { return r.asked() }

func (r *Run) asked() chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.questions.asked == nil {
		r.questions.asked = make(chan struct{}, 1)
	}
	return r.questions.asked
}

// CheckResponses refuses answers to open questions that are not results of the request, or do not fit it.
func (r *Run) CheckResponses(responses map[string]json.RawMessage) error {
	for key, response := range responses {
		r.mu.Lock()
		q := r.questions.byKey[key]
		r.mu.Unlock()
		if q == nil {
			continue // see Answer
		}
		if _, err := q.Read(response); err != nil {
			return rpc.Errorf(mcp.CodeInvalidParams, "params.inputResponses[%q] %v", key, err)
		}
	}
	return nil
}

// Read reads an answer, from wherever it comes. The error says what is wrong with it. An answer to anything but an elicitation is only
// an object.
func (q *Question) Read(response json.RawMessage) (mcp.ElicitResult, error) {
	if q.Request.Method != "elicitation/create" {
		if !rawjson.IsObject(response) {
			return mcp.ElicitResult{}, errors.New("must be the result of " + q.Request.Method + ", an object")
		}
		return mcp.ElicitResult{}, nil
	}
	var r mcp.ElicitResult
	if rawjson.Unmarshal(response, &r) != nil || !r.Action.Valid() {
		return mcp.ElicitResult{}, errors.New("must be an elicitation result with action accept, decline or cancel")
	}
	if r.Action != mcp.ElicitAccept || q.Check == nil {
		return r, nil
	}
	return r, q.Check(r.Content)
}

// Answer answers open questions. Keys that name none are ignored: "keys that were never issued, keys that have
// already been answered, and keys whose corresponding request has been superseded" (ext-tasks).
func (r *Run) Answer(responses map[string]json.RawMessage) {
	if r.answer(responses) {
		r.changes.Send() // when the last one is answered, its Close tells
	}
}

// answer gives the answers out and reports whether it took some of the open questions and left others.
func (r *Run) answer(responses map[string]json.RawMessage) (some bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, response := range responses {
		q := r.questions.byKey[key]
		if q == nil {
			continue
		}
		delete(r.open, key)
		delete(r.questions.byKey, key)
		q.answer <- response
		some = true
	}
	if some {
		r.restate()
	}
	return some && len(r.open) > 0
}
