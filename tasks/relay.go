package tasks

import (
	"context"
	"encoding/json"
	"sync"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

// relay puts the questions of a task of the stateless era to a client of a session that waits for its result: "When the requestor
// encounters the input_required status, it SHOULD preemptively call tasks/result" (2025-11-25 basic/utilities/tasks). Each question is with
// one client at a time. stop withdraws those that are open.
//
// Goroutines: one looks for questions; one per question waits for the client's answer.
func (v *View) relay(ctx context.Context, c *rpc.Caller) (stop func()) {
	if v == nil || !c.Version.Elicitation || !c.Capabilities.AsksByForm() {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	changed, unwatch := v.Watch()
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			for _, q := range v.unsent() {
				wg.Go(func() { q.send(ctx, c) })
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

// unsent returns the open questions with a form that no client has been sent. From now on they count as sent.
func (v *View) unsent() (list []*Question) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, q := range v.open {
		if _, is := q.form(); is && !q.Sent {
			q.Sent = true
			list = append(list, q)
		}
	}
	return list
}

// form returns the params of a question with a form. Another server or a worker may have made them, so they may be anything.
func (q *Question) form() (params mcp.ElicitParams, is bool) {
	is = q.Request.Method == "elicitation/create" && rawjson.StringMember(q.Request.Params, "mode") != "url" &&
		json.Unmarshal(q.Request.Params, &params) == nil
	return params, is
}

// send sends the question and passes the answer on, unless somebody else answers first. An unanswered question may be sent again to another
// waiting client once this one waits no longer, but not at once to a client that answers with errors.
func (q *Question) send(waits context.Context, c *rpc.Caller) {
	ctx, cancel := context.WithCancel(waits)
	defer cancel()
	defer context.AfterFunc(q.closed, cancel)()
	params, _ := q.form()
	params.Meta = Related(q.view.id)
	var response json.RawMessage
	err := c.Request(ctx, q.Request.Method, params, &response)
	if err == nil {
		_, err = q.Read(response)
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
