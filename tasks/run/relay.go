package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks"
	"runnel/tools/schema"
)

// Relay sends the questions of a task to a client of the handshake era that waits for its result: "When the
// requestor
// encounters the input_required status, it SHOULD preemptively call tasks/result" (2025-11-25
// basic/utilities/tasks). Each question is with one client at a time. stop withdraws those that are open.
//
// Goroutines: one looks for questions, and one for each question waits for the client's answer.
func (v *View) Relay(ctx context.Context, c *rpc.Caller) (stop func()) {
	if v == nil || !c.Version.Elicitation || !c.Capabilities.AsksByForm() {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	changed, unwatch := v.Watch()
	var dismissed sync.Map // the keys of questions that this client has left to others
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			for _, q := range v.unsent(&dismissed) {
				wg.Go(func() { q.send(ctx, c, &dismissed) })
			}
			select {
			case <-changed:
			case <-ctx.Done():
			}
		}
	})
	return func() {
		cancel()
		wg.Wait()
		unwatch()
	}
}

// unsent returns the open questions with a form that have not been sent to a client, without those that are
// dismissed. From now on they count as sent.
func (v *View) unsent(dismissed *sync.Map) (list []*Question) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, q := range v.open {
		_, without := dismissed.Load(q.key)
		if _, is := q.form(); is && !q.Sent && !without {
			q.Sent = true
			list = append(list, q)
		}
	}
	return list
}

// form returns the params of a question, and reports whether it has a form. Another server or a worker may
// have made it, so it may be anything.
func (q *Question) form() (params mcp.ElicitParams, is bool) {
	is = q.Request.Method == "elicitation/create" &&
		rawjson.StringMember(q.Request.Params, "mode") != "url" &&
		json.Unmarshal(q.Request.Params, &params) == nil
	return params, is
}

// CheckForm returns an error if the content of an answer does not fit the schema of its form. Servers "SHOULD
// validate received data matches the requested schema" (client/elicitation, "Security Considerations"). No
// content is an empty form.
func CheckForm(form, content json.RawMessage) error {
	if len(content) == 0 {
		content = json.RawMessage("{}")
	}
	if !rawjson.IsObject(content) {
		return errors.New("has content that is not an object")
	}
	if !rawjson.IsObject(form) { // it has none: nil, or null where it was stored
		return nil
	}
	if err := schema.New(form, "field").Check(content); err != nil {
		return fmt.Errorf("has %w", err)
	}
	return nil
}

// send sends the question and passes on the answer, unless it is answered elsewhere first. When this client
// stops waiting, an unanswered question is sent to another one that waits; after an error, it is sent again
// only when the task changes. A lasting one that it dismisses is left to others.
func (q *Question) send(waits context.Context, c *rpc.Caller, dismissed *sync.Map) {
	ctx, cancel := context.WithCancel(waits)
	defer cancel()
	defer context.AfterFunc(q.closed, cancel)()
	params, _ := q.form()
	params.Meta = tasks.Related(q.view.id)
	var response json.RawMessage
	err := c.Request(ctx, q.Request.Method, params, &response)
	if err == nil {
		_, err = q.Read(response)
	}
	if err == nil && q.dismisses(response) {
		dismissed.Store(q.key, nil)
		q.Release()
		return
	}
	if err == nil {
		err = q.Answer(ctx, response)
	}
	if err == nil {
		return
	}
	q.view.mu.Lock()
	q.Sent = false
	q.view.mu.Unlock()
	if waits.Err() != nil {
		q.view.changes.Send()
	}
}

// publish shows a question to the followers of the task, and starts a goroutine that waits for their answer
// until the question is closed. changing is held.
func (r *Run) publish(q *Question) error {
	if _, err := r.setNotes(r.ctx,
		map[string]any{tasks.QuestionPrefix + q.key: questionNote{q.Request, q.Message}}); err != nil {
		return err
	}
	r.runner.Go(func(ctx context.Context) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(q.closed, cancel)()
		switch a, err := r.awaitAnswer(ctx, q.key); {
		case err != nil: // the question is closed
		case a.Error != nil:
			q.refused <- a.Error
		default:
			_ = r.Answer(ctx, map[string]json.RawMessage{q.key: a.Result}) // it cannot fail here
		}
	})
	return nil
}

// awaitAnswer waits until a follower has answered a question. That costs as much as following a task.
func (r *Run) awaitAnswer(ctx context.Context, key string) (answerNote, error) {
	var t tasks.Task
	err := r.runner.retryWatch(ctx, r.id, func() (err error) {
		t, err = r.runner.store.Get(ctx, r.id)
		return err
	})
	if err != nil {
		return answerNote{}, err
	}
	t.Log.Follow()
	t.Segments.Follow()
	for {
		if a, ok := readNotes(t.Variables, t.Attempt).answers[key]; ok {
			return a, nil
		}
		if err := r.runner.watchStored(ctx, &t); err != nil {
			return answerNote{}, err
		}
	}
}

// unpublish deletes a question and its answer.
func (r *Run) unpublish(q *Question) {
	_, err := r.setNotes(context.WithoutCancel(r.ctx),
		map[string]any{tasks.QuestionPrefix + q.key: nil, tasks.AnswerPrefix + q.key: nil})
	if err != nil { // followers may show the question until the task ends
		r.runner.o.Log.Debug().Err(err).Str("taskId", r.id).Msg("withdrawing a question")
	}
}
