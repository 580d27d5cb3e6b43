package tasks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
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
	r.asked++ // "Each request key in inputRequests MUST be unique over the lifetime of a single task" (ext-tasks)
	q.run, q.key, q.answer = r, fmt.Sprintf("question-%d", r.asked), make(chan json.RawMessage, 1)
	q.closed, q.close = context.WithCancel(context.Background())
	r.open = append(r.open, q)
	r.mu.Unlock()
	err := r.restate(true)
	if err != nil {
		r.forget(q)
		_ = r.restate(true) // which cannot be stored either, but it is told
	}
	return err
}

// Answered gives the answer, once: an encoded [mcp.ElicitResult].
func (q *Question) Answered() <-chan json.RawMessage { return q.answer }

// Close ends the question, answered or not. The task goes on when it was the last one.
func (q *Question) Close() error {
	q.close()
	q.run.door.Lock()
	defer q.run.door.Unlock()
	return q.run.restate(q.run.forget(q))
}

// question is the open one with a key, or nil. r.mu is held.
func (r *Run) question(key string) *Question {
	for _, q := range r.open {
		if q.key == key {
			return q
		}
	}
	return nil
}

// forget takes a question out of those that are open, and reports whether it was one.
func (r *Run) forget(q *Question) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := len(r.open)
	r.open = slices.DeleteFunc(r.open, func(open *Question) bool { return open == q })
	return len(r.open) < before
}

// restate makes the status say the first of the questions that are open, or that the task works if there is none, and stores that, which
// other processes read. It is announced if it has changed. It fails only if the task has moved between working and input_required. The
// door is held.
func (r *Run) restate(changed bool) error {
	r.mu.Lock()
	if r.finishing {
		r.mu.Unlock()
		return ErrEnded
	}
	status, message := mcp.TaskWorking, ""
	if len(r.open) > 0 {
		status, message = mcp.TaskInputRequired, Clip(r.open[0].Message)
	}
	moved := status != r.task.Status
	if changed = changed || moved; changed {
		r.task.Status, r.task.StatusMessage, r.task.UpdatedAt = status, message, time.Now()
		defer r.changes.Send()
	}
	t, handle := r.task, r.handle
	r.mu.Unlock()
	if !handle {
		return nil
	}
	if moved {
		r.spec.Client.Status(t.wire(r.runner.o.PollInterval))
	}
	err := r.runner.o.State.Put(r.ctx, t)
	if !moved {
		return nil // that something is asked has been stored
	}
	return err
}

// CheckResponses refuses answers to open questions that are not results of the request, or do not fit it.
func (r *Run) CheckResponses(responses map[string]json.RawMessage) error {
	for key, response := range responses {
		r.mu.Lock()
		q := r.question(key)
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
	r.mu.Lock()
	defer r.mu.Unlock()
	before := len(r.open)
	r.open = slices.DeleteFunc(r.open, func(q *Question) bool {
		response, answered := responses[q.key]
		if answered {
			q.answer <- response
		}
		return answered
	})
	if left := len(r.open); left > 0 && left < before { // when the last one is answered, its Close tells
		r.task.StatusMessage, r.task.UpdatedAt = Clip(r.open[0].Message), time.Now()
		r.changes.Send()
	}
}
