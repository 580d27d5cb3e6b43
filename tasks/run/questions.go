package run

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks"
)

const (
	// questionKey begins the key of every question.
	questionKey = "question-"
	// lastingKey begins the keys of those with a name of their own.
	lastingKey = questionKey + "for-"
)

// Ask opens a question. It fails with ErrEnded if the task has ended, and if the question cannot be stored.
// Wait for Answered, Refused or Closed, and then call Close.
func (r *Run) Ask(q *Question) error {
	r.changing.Lock()
	defer r.changing.Unlock()
	r.mu.Lock()
	// "Each request key in inputRequests MUST be unique over the lifetime of a single task" (ext-tasks).
	r.asked++
	q.run = r
	q.view = &r.View
	q.key = ofAttempt(r.task.Attempt, fmt.Sprint(questionKey, r.asked))
	if q.Name != "" {
		q.key = lastingKey + q.Name
	}
	q.answer, q.refused = make(chan json.RawMessage, 1), make(chan error, 1)
	q.closed, q.close = context.WithCancel(context.Background())
	r.open = append(r.open, q)
	q.published = r.taken || (r.runner.o.Shared || q.Name != "") && r.kept == handle
	r.mu.Unlock()
	var err error
	if q.published { // before the status, so that a follower who sees the status finds the question
		err = r.publish(q)
	}
	if err == nil {
		err = r.updateStatus(true)
	}
	if a, answered := r.earlier[q.key]; answered && err == nil {
		if _, wrong := q.Read(a); wrong == nil {
			err = r.Answer(r.ctx, map[string]json.RawMessage{q.key: a})
		}
	}
	if err != nil {
		_ = r.closeQuestion(q) // the status may not be stored either, but it is announced
	}
	return err
}

// Answered receives the answer, once: an encoded [mcp.ElicitResult].
// Receive from it after Run.Ask.
func (q *Question) Answered() <-chan json.RawMessage { return q.answer }

// Refused receives the reason, once, if the client of a task that runs in another process cannot be asked.
// Receive from it after Run.Ask.
func (q *Question) Refused() <-chan error { return q.refused }

// Closed is closed when the answer is no longer wanted.
func (q *Question) Closed() <-chan struct{} { return q.closed.Done() }

// Answer answers the question. It fails like View.Answer.
// Call it with what the client answers, after Read.
func (q *Question) Answer(ctx context.Context, response json.RawMessage) error {
	return q.view.Answer(ctx, map[string]json.RawMessage{q.key: response})
}

// lasts reports whether the question has a name of its own.
func (q *Question) lasts() bool { return strings.HasPrefix(q.key, lastingKey) }

// dismisses reports whether an answer to a lasting question leaves it open for others: the user has closed
// the dialog without an answer, or the host has, at its end ("cancel: User dismissed without making an
// explicit choice", client/elicitation, "Response Actions").
func (q *Question) dismisses(response json.RawMessage) bool {
	return q.lasts() && rawjson.StringMember(response, "action") == string(mcp.ElicitCancel)
}

// Claim reports whether the question has not been sent to a client; from now on it counts as sent.
func (q *Question) Claim() bool {
	q.view.mu.Lock()
	defer q.view.mu.Unlock()
	sent := q.Sent
	q.Sent = true
	return !sent
}

// Release lets a lasting question that is still open be sent to another client, which waits for the result of
// the task.
func (q *Question) Release() {
	if !q.lasts() {
		return
	}
	q.view.mu.Lock()
	q.Sent = false
	q.view.mu.Unlock()
	q.view.changes.Send()
}

// Refuse refuses a question of a task that another process runs: it stores that there will be no answer, and
// why. A lasting one stays open for others.
func (q *Question) Refuse(ctx context.Context, why error) {
	if q.lasts() {
		return
	}
	wire, ok := errors.AsType[*rpc.Error](why)
	if !ok {
		wire = rpc.Errorf(mcp.CodeInternalError, "%v", why)
	}
	// The work gives up by itself.
	if err := q.view.reply(ctx, map[string]answerNote{q.key: {Error: wire}}); err != nil && ctx.Err() == nil {
		q.view.runner.o.Log.Warn().Err(err).Str("taskId", q.view.id).Msg("refusing a question")
	}
}

// Close closes the question, answered or not. When the last one is closed the task is working again.
// Call it once for each question, when its answer has come or is no longer wanted.
func (q *Question) Close() error {
	q.close() // at once, even if changing is held for long
	q.run.changing.Lock()
	defer q.run.changing.Unlock()
	return q.run.closeQuestion(q)
}

// closeQuestion is Question.Close for callers that hold changing.
func (r *Run) closeQuestion(q *Question) error {
	q.close()
	if q.Name != "" && r.runner.Closing() && r.resumes() {
		return nil // it stays open: the next process asks it again, and finds the answer that has come until then
	}
	err := r.updateStatus(r.forget(q))
	if q.published {
		r.unpublish(q)
	}
	return err
}

// question returns the open question with a key, or nil. v.mu is held.
func (v *View) question(key string) *Question {
	for _, q := range v.open {
		if q.key == key {
			return q
		}
	}
	return nil
}

// forget removes a question from the open ones, and reports whether it was among them.
func (r *Run) forget(q *Question) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := len(r.open)
	r.open = slices.DeleteFunc(r.open, func(open *Question) bool { return open == q })
	return len(r.open) < before
}

// updateStatus sets the status and its message from the open questions: those of the first one, or working if
// there is none. It stores the task and announces a change. A failure to store is an error only if the task
// has moved between working and input_required. changing is held.
func (r *Run) updateStatus(changed bool) error {
	r.mu.Lock()
	if r.phase >= ending {
		r.mu.Unlock()
		return tasks.ErrEnded
	}
	status, message := mcp.TaskWorking, ""
	if len(r.open) > 0 {
		status, message = mcp.TaskInputRequired, tasks.Clip(r.open[0].Message)
	}
	moved := status != r.task.Status
	if changed = changed || moved; changed {
		r.task.Status = status
		r.task.StatusMessage = message
		r.task.UpdatedAt = time.Now()
		defer r.changes.Send()
	}
	t, has := r.task, r.kept
	r.mu.Unlock()
	if has != handle {
		return nil
	}
	if moved {
		r.spec.Client.Status(t.Wire(r.runner.o.PollInterval))
	}
	err := r.runner.store.Put(r.ctx, t)
	if !moved {
		return nil // what is stored still says input_required
	}
	return err
}

// Answer checks answers to the open questions of a task of the owner, and answers them, like CheckResponses
// and Answer of its View. It ignores answers for a task that has ended.
func (r *Runner) Answer(ctx context.Context, id string, responses map[string]json.RawMessage) error {
	v, release, err := r.Follow(ctx, id)
	if err != nil {
		return err
	}
	defer release()
	if v == nil { // it has ended
		return nil
	}
	if t := v.Task(); t.Status == mcp.TaskInputRequired && v.away() &&
		!bytes.Contains(t.Variables, []byte(tasks.QuestionPrefix)) {
		// "On success, the server MUST acknowledge": these answers would reach no question.
		return rpc.Errorf(mcp.CodeInvalidParams,
			"the questions of a task can be answered where it runs, and another process runs it")
	}
	if err := v.CheckResponses(responses); err != nil {
		return err
	}
	return v.Answer(ctx, responses)
}

// CheckResponses returns an error if an answer is not a valid result for its open question.
// Call it before Answer, so that no question gets a bad answer.
func (v *View) CheckResponses(responses map[string]json.RawMessage) error {
	for key, response := range responses {
		v.mu.Lock()
		q := v.question(key)
		v.mu.Unlock()
		if q == nil {
			continue // ignored, as in Answer
		}
		if _, err := q.Read(response); err != nil {
			return rpc.Errorf(mcp.CodeInvalidParams, "params.inputResponses[%q] %v", key, err)
		}
	}
	return nil
}

// Dismisses reports whether one of these answers leaves an open lasting question open.
func (v *View) Dismisses(responses map[string]json.RawMessage) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.ContainsFunc(v.open, func(q *Question) bool { return q.dismisses(responses[q.key]) })
}

// Read decodes and checks an answer; the error says what is wrong. An answer to anything but an elicitation
// must only be an object. Call it on each answer, wherever it comes from.
func (q *Question) Read(response json.RawMessage) (mcp.ElicitResult, error) {
	if q.Request.Method != "elicitation/create" {
		if !rawjson.IsObject(response) {
			return mcp.ElicitResult{}, errors.New("must be the result of " + q.Request.Method + ", an object")
		}
		return mcp.ElicitResult{}, nil
	}
	var r mcp.ElicitResult
	if rawjson.Unmarshal(response, &r) != nil || !r.Action.Valid() {
		return mcp.ElicitResult{}, errors.New("must be an elicitation result with action accept, decline " +
			"or cancel")
	}
	if r.Action != mcp.ElicitAccept || q.Check == nil {
		return r, nil
	}
	return r, q.Check(r.Content)
}

// Answer answers open questions. It ignores unknown keys: "keys that were never issued, keys that have
// already been answered, and keys whose corresponding request has been superseded" (ext-tasks), and a cancel
// of a lasting question. It fails if another process runs the task and the answer cannot be stored. Call it
// with the inputResponses of a request, after CheckResponses.
func (v *View) Answer(ctx context.Context, responses map[string]json.RawMessage) error {
	if v.away() {
		answers := map[string]answerNote{}
		v.mu.Lock()
		for key, response := range responses {
			if q := v.question(key); q != nil && !q.dismisses(response) {
				answers[key] = answerNote{Result: response}
			}
		}
		v.mu.Unlock()
		return v.reply(ctx, answers)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	before := len(v.open)
	v.open = slices.DeleteFunc(v.open, func(q *Question) bool {
		response, answered := responses[q.key]
		if answered = answered && !q.dismisses(response); answered {
			q.answer <- response
		}
		return answered
	})
	if left := len(v.open); left > 0 && left < before { // for the last one, Close announces the change
		v.task.StatusMessage, v.task.UpdatedAt = tasks.Clip(v.open[0].Message), time.Now()
		v.changes.Send()
	}
	return nil
}
