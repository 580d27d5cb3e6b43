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
