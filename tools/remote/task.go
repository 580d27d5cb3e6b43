package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"runnel/partials/tracker"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks"
)

// await waits until the task has ended and its output has come. When ctx ends, it cancels the task and waits
// up to cancelGrace.
func (c *Call) await(ctx context.Context, capabilities any) error {
	if c.client.Era() == rpc.Stateless {
		c.start(func() { c.listen(capabilities) })
	}
	poll := defaultPoll
	seen := 0 // the partials at the last poll
	timer := time.NewTimer(poll)
	defer timer.Stop()
	asking, cancelled := ctx, ctx.Done() // asking bounds requests that the server does not answer
	var deadline <-chan struct{}
	for {
		end, _ := c.tracker.End()
		c.fetch(asking, end != tracker.Running)
		if end != tracker.Running {
			return nil
		}
		select {
		case <-c.changed:
		case <-c.client.Context().Done():
			return fmt.Errorf("%w: %w", rpc.ErrClosed, c.client.Err())
		case <-cancelled:
			var stop context.CancelFunc
			asking, stop = context.WithTimeout(c.all, cancelGrace)
			defer stop()
			cancelled, deadline = nil, asking.Done()
			reason := "" // other causes of ctx mean nothing to the server
			if ctx.Err() == context.DeadlineExceeded {
				reason = context.Cause(ctx).Error()
			}
			if err := c.cancel(asking, reason); err != nil {
				return err
			}
		case <-deadline:
			return fmt.Errorf("cancelled, but it has not ended within %v", cancelGrace)
		case <-timer.C:
			// "Requestors MUST NOT rely on receiving this notification": they poll.
			poll = c.poll(asking, poll)
			timer.Reset(poll)
			// If a server of SEP-1905 pushes nothing, its output is fetched.
			if c.tracker.Stats().Partials == seen {
				c.fetch(asking, true)
			}
			seen = c.tracker.Stats().Partials
		}
	}
}

// errUnknown is the error of a call whose task its server has lost. Such a server refuses the id, in words
// that a client of this runnel would take for those of this runnel about its own task.
var errUnknown = errors.New("the task has expired: the server does not know it any more")

// refusesParams reports whether a server has refused the params of a request.
func refusesParams(err error) bool {
	e, ok := errors.AsType[*rpc.Error](err)
	return ok && e.Code == mcp.CodeInvalidParams
}

// unknown reports whether the server does not know the task. A refused tasks/result alone does not say so: it
// may be how the call has ended (2025-11-25 tasks, "Result Retrieval").
func (c *Call) unknown(ctx context.Context) bool {
	return refusesParams(c.client.Call(ctx, "tasks/get", mcp.TaskParams{TaskID: c.tracker.TaskID()}, nil))
}

// result gets the result of a task that has ended.
func (c *Call) result(ctx context.Context) (json.RawMessage, error) {
	switch end, message := c.tracker.End(); {
	case end == tracker.Expired:
		return nil, errUnknown
	case end == tracker.Cancelled && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case end == tracker.Cancelled:
		return nil, fmt.Errorf("the task was cancelled: %s", message)
	}
	if c.client.Era() == rpc.Stateless {
		var got struct {
			Result json.RawMessage `json:"result"`
			Error  *rpc.Error      `json:"error"`
		}
		err := c.client.Call(ctx, "tasks/get", mcp.TaskParams{TaskID: c.tracker.TaskID()}, &got)
		switch {
		case refusesParams(err):
			return nil, errUnknown
		case err == nil && got.Error != nil:
			return nil, got.Error
		}
		return got.Result, err
	}
	// "The canonical result MUST be retrieved via tasks/result" (SEP-2679 1.3.6).
	c.awaitResult()
	select {
	case end := <-c.early:
		if refusesParams(end.err) && c.unknown(ctx) { // some servers forget a task whose result they have given
			return nil, fmt.Errorf("%w: %v", errUnknown, end.err)
		}
		return end.result, end.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// state handles the state of the task: its message and its questions.
func (c *Call) state(s *mcp.DetailedTask) {
	if c.o.Status != nil && s.Status == mcp.TaskWorking && s.StatusMessage != "" {
		c.o.Status(s.StatusMessage)
	}
	if s.Status == mcp.TaskInputRequired && c.client.Era() == rpc.Handshake {
		c.awaitResult()
	}
	for key, q := range s.InputRequests {
		if done, ok := c.take(key, q); ok {
			c.start(func() {
				defer done()
				c.answer(s.TaskID, key, q)
			})
		}
	}
}

// awaitResult asks for the result, once, also for a task that has not ended: "When the requestor encounters
// the input_required status, it SHOULD preemptively call tasks/result", since some servers ask only then
// (2025-11-25 tasks, "Input Required Status").
func (c *Call) awaitResult() {
	c.awaits.Do(func() {
		c.start(func() {
			var end resultOrError
			end.err = c.client.Call(c.all, "tasks/result", mcp.TaskParams{TaskID: c.tracker.TaskID()},
				&end.result)
			c.early <- end
		})
	})
}

// answer answers a question of a task of the stateless era. A server may refuse an answer, such as one that
// lacks what its schema requires. It would wait for another one for ever, so it then gets the answer that the
// question was cancelled.
func (c *Call) answer(id, key string, q mcp.InputRequest) {
	cancelled := rawjson.Encode(mcp.ElicitResult{Action: mcp.ElicitCancel})
	update := func(response json.RawMessage) error {
		responses := map[string]json.RawMessage{key: response}
		return c.client.Call(c.all, "tasks/update",
			mcp.UpdateTaskParams{TaskID: id, InputResponses: responses}, nil)
	}
	response, err := c.put(c.all, q)
	if err != nil && q.Method == "elicitation/create" {
		response, err = cancelled, nil
	}
	if err == nil {
		err = update(response)
	}
	if _, refused := errors.AsType[*rpc.Error](err); refused && q.Method == "elicitation/create" {
		c.o.Log.Warn().Err(err).Str("tool", c.tool).
			Msg("the server refuses the answer to its question, so the question is cancelled")
		err = update(cancelled)
	}
	if err != nil && c.all.Err() == nil {
		c.o.Log.Warn().Err(err).Str("tool", c.tool).Msg("answering a question")
	}
}

// listen subscribes to a task of the stateless era: its states and its output.
func (c *Call) listen(capabilities any) {
	err := c.client.Listen(c.all, &rpc.Request{
		Method:       "subscriptions/listen",
		Params:       mcp.ListenParams{Notifications: &mcp.SubscriptionFilter{TaskIDs: []string{c.tracker.TaskID()}}},
		Capabilities: capabilities,
	}, c.tracker.Interrupted)
	if err != nil && c.all.Err() == nil {
		c.o.Log.Debug().Err(err).Str("tool", c.tool).Msg("no subscription: polling")
	}
}

// poll asks for the task, and returns the time until the next poll.
func (c *Call) poll(ctx context.Context, before time.Duration) time.Duration {
	var state struct {
		mcp.DetailedTask
		PollInterval int64 `json:"pollInterval"`
	}
	err := c.client.Call(ctx, "tasks/get", mcp.TaskParams{TaskID: c.tracker.TaskID()}, &state)
	switch {
	case refusesParams(err):
		c.tracker.Finish(tracker.Expired, errUnknown.Error())
		return before
	case err != nil:
		return before
	}
	if spoke := c.spoken.Swap(false); state.Status.Terminal() && spoke && !c.client.InOrder() {
		// Output may still be on its way, perhaps on another connection: it comes before the end that is
		// notified there.
		return before
	}
	c.state(&state.DetailedTask)
	c.tracker.Status(state.Status, state.StatusMessage)
	if ms := max(state.PollInterval, state.PollIntervalMs); ms > 0 {
		return max(time.Duration(ms)*time.Millisecond, leastPoll)
	}
	return before
}

// fetch fetches missing output and, with rest, output that a server of SEP-1905 has not pushed, until all of
// it is there.
func (c *Call) fetch(ctx context.Context, rest bool) {
	for asked := int64(-1); ; {
		w, ok := c.tracker.Wanted(rest, asked)
		if !ok {
			return
		}
		patient, done := c.patience(ctx)
		if w.Log {
			c.tracker.FetchedRange(c.readLog(patient, w.After))
		} else {
			var page json.RawMessage
			err := c.client.Call(patient, "tasks/result",
				mcp.TaskParams{TaskID: c.tracker.TaskID(), LastSeqNr: fmt.Append(nil, w.After)}, &page)
			c.tracker.Fetched(page, err)
			asked = w.After
		}
		done()
	}
}

// patience bounds a fetch: after fetchTime it asks the server something else, and ends when the server
// answers that. Time alone does not show that a fetch will not be answered: its answer may be queued here,
// because the reader of the output lags.
func (c *Call) patience(ctx context.Context) (patient context.Context, done func()) {
	patient, done = context.WithCancel(ctx)
	c.start(func() {
		select {
		case <-patient.Done():
		case <-time.After(fetchTime):
			// any answer will do.
			_ = c.client.Call(patient, "tasks/get", mcp.TaskParams{TaskID: c.tracker.TaskID()}, nil)
			done()
		}
	})
	return patient, done
}

// readLog reads the task's log from a position on, if the server is a runnel.
func (c *Call) readLog(ctx context.Context, after int64) (text string, next int64, err error) {
	if c.client.Capabilities().Resources == nil {
		return "", 0, errors.New("the server has no resources")
	}
	uri := fmt.Sprintf("%s?after=%d", tasks.LogURI(c.tracker.TaskID()), after)
	var read struct {
		Contents []struct {
			Text string `json:"text"`
			Meta struct {
				Next int64 `json:"runnel/next"`
			} `json:"_meta"`
		} `json:"contents"`
	}
	if err := c.client.Call(ctx, "resources/read", mcp.ResourceParams{URI: uri}, &read); err != nil {
		return "", 0, err
	}
	if len(read.Contents) != 1 {
		return "", 0, fmt.Errorf("%d contents", len(read.Contents))
	}
	return read.Contents[0].Text, read.Contents[0].Meta.Next, nil
}

// cancel cancels the task. That it has already ended is not an error.
func (c *Call) cancel(ctx context.Context, reason string) error {
	var state mcp.Task
	err := c.client.Call(ctx, "tasks/cancel",
		mcp.TaskParams{TaskID: c.tracker.TaskID(), Meta: mcp.CancelMeta{Reason: reason}}, &state)
	var e *rpc.Error
	if err != nil && !errors.As(err, &e) && ctx.Err() == nil {
		return err
	}
	if err == nil && c.client.Era() == rpc.Handshake {
		c.tracker.Status(state.Status, state.StatusMessage)
	}
	return nil
}
