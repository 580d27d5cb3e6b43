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
	"runnel/tasks"
)

// follow waits for the end of a task and gets its result.
func (r *Call) follow(ctx context.Context, call *Params) (json.RawMessage, error) {
	if r.client.Era() == rpc.Stateless {
		r.background.Go(func() { r.listen(call.Capabilities) })
	}
	poll := defaultPoll
	seen := int64(0) // the last segment at the last poll
	timer := time.NewTimer(poll)
	defer timer.Stop()
	asking, cancelled := ctx, ctx.Done() // asking is for requests: one that the server does not answer ends with it
	var deadline <-chan struct{}
	for !r.gathered(asking) {
		select {
		case <-r.changed:
		case <-r.client.Done():
			return nil, fmt.Errorf("%w: %w", rpc.ErrClosed, r.client.Err())
		case <-cancelled:
			var stop context.CancelFunc
			asking, stop = context.WithTimeout(r.all, cancelGrace)
			defer stop()
			cancelled, deadline = nil, asking.Done()
			if err := r.cancel(asking); err != nil {
				return nil, err
			}
		case <-deadline:
			return nil, fmt.Errorf("cancelled, but it has not ended within %v", cancelGrace)
		case <-timer.C:
			// "Requestors MUST NOT rely on receiving this notification": they poll.
			poll = r.poll(asking, poll)
			timer.Reset(poll)
			// A server of SEP-1905 that pushes nothing is asked for what there is.
			if last, more := r.tracker.Rest(); more && last == seen {
				r.pull(asking)
			}
			seen, _ = r.tracker.Rest()
		}
	}
	switch end, message := r.tracker.End(); {
	case end == tracker.Expired:
		return nil, errors.New("the task has expired: the server does not know it any more")
	case end == tracker.Cancelled && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case end == tracker.Cancelled:
		return nil, fmt.Errorf("the task was cancelled: %s", message)
	}
	return r.taskResult(ctx)
}

// gathered reports whether the task has ended and all of its output is here that can be had. What was not pushed it fetches.
func (r *Call) gathered(ctx context.Context) bool {
	for {
		if end, _ := r.tracker.End(); end == tracker.Running || r.tracker.Ranging() {
			return false
		}
		if _, more := r.tracker.Rest(); !more {
			return true
		}
		if asked, got := r.pull(ctx); !got {
			return asked // else somebody else's answer is awaited
		}
	}
}

// taskResult gets the result of a task that has ended.
func (r *Call) taskResult(ctx context.Context) (json.RawMessage, error) {
	params := mcp.TaskParams{TaskID: r.tracker.TaskID()}
	if r.client.Era() == rpc.Stateless {
		var t struct {
			Result json.RawMessage `json:"result"`
			Error  *rpc.Error      `json:"error"`
		}
		if err := r.client.Call(ctx, "tasks/get", params, &t); err != nil {
			return nil, err
		}
		if t.Error != nil {
			return nil, t.Error
		}
		return t.Result, nil
	}
	r.mu.Lock()
	early := r.awaits
	r.awaits = true
	r.mu.Unlock()
	if early {
		select {
		case end := <-r.early:
			return end.result, end.err
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	// "The canonical result MUST be retrieved via tasks/result" (SEP-2679 1.3.6).
	var result json.RawMessage
	err := r.client.Call(ctx, "tasks/result", params, &result)
	return result, err
}

// listen subscribes to a task of the stateless era: its states and its output.
func (r *Call) listen(capabilities *mcp.ClientCapabilities) {
	_, err := r.client.Do(r.all, &rpc.Request{
		Method:       "subscriptions/listen",
		Params:       mcp.ListenParams{Notifications: &mcp.SubscriptionFilter{TaskIDs: []string{r.tracker.TaskID()}}},
		Capabilities: capabilities,
	})
	if err != nil && r.all.Err() == nil {
		r.o.Log.Debug().Err(err).Str("tool", r.tool).Msg("no subscription: polling")
	}
}

// takeSpoken reports whether the server has said something of the task since this was asked last.
func (r *Call) takeSpoken() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	spoken := r.spoken
	r.spoken = false
	return spoken
}

// poll asks for the task; it returns when to ask again.
func (r *Call) poll(ctx context.Context, before time.Duration) time.Duration {
	var t struct {
		mcp.DetailedTask
		PollInterval int64 `json:"pollInterval"`
	}
	err := r.client.Call(ctx, "tasks/get", mcp.TaskParams{TaskID: r.tracker.TaskID()}, &t)
	var e *rpc.Error
	switch {
	case errors.As(err, &e) && e.Code == mcp.CodeInvalidParams:
		r.tracker.Finish(tracker.Expired, e.Message)
		return before
	case err != nil:
		return before
	}
	if spoke := r.takeSpoken(); t.Status.Terminal() && spoke && r.client.Era() == rpc.Stateless {
		// The subscription goes on: what of the output is still on its way comes before the end that it tells.
		return before
	}
	r.status(&t.DetailedTask)
	r.tracker.Status(t.Status, t.StatusMessage)
	if ms := max(t.PollInterval, t.PollIntervalMs); ms > 0 {
		return max(time.Duration(ms)*time.Millisecond, leastPoll)
	}
	return before
}

// pull asks for segments that were not pushed (SEP-1905), unless the answer to such a request is awaited already. got: some came, or
// are being fetched behind what has come, so there may be more.
func (r *Call) pull(ctx context.Context) (asked, got bool) {
	last, ok := r.tracker.Poll()
	if !ok {
		return false, false
	}
	r.fetch(ctx, last)
	after, ok := r.tracker.Rest()
	return true, ok && (after > last || r.tracker.Fetching())
}

func (r *Call) fetch(ctx context.Context, last int64) {
	var page json.RawMessage
	err := r.client.Call(ctx, "tasks/result", mcp.TaskParams{TaskID: r.tracker.TaskID(), LastSeqNr: fmt.Append(nil, last)}, &page)
	r.tracker.Fetched(page, err)
}

// resume gets what is missing in a stream.
func (r *Call) resume() {
	for {
		select {
		case <-r.all.Done():
			return
		case last := <-r.fetches:
			r.fetch(r.all, last)
		case after := <-r.ranges:
			r.tracker.FetchedRange(r.readLog(r.all, after))
		}
		r.wake()
	}
}

// readLog reads the task's log from a position on, where the server is a runnel.
func (r *Call) readLog(ctx context.Context, after int64) (text string, next int64, err error) {
	if r.client.Capabilities().Resources == nil {
		return "", 0, errors.New("the server has no resources")
	}
	uri := fmt.Sprintf("%s?after=%d", tasks.LogURI(r.tracker.TaskID()), after)
	var read struct {
		Contents []struct {
			Text string `json:"text"`
			Meta struct {
				Next int64 `json:"runnel/next"`
			} `json:"_meta"`
		} `json:"contents"`
	}
	if err := r.client.Call(ctx, "resources/read", mcp.ResourceParams{URI: uri}, &read); err != nil {
		return "", 0, err
	}
	if len(read.Contents) != 1 {
		return "", 0, fmt.Errorf("%d contents", len(read.Contents))
	}
	return read.Contents[0].Text, read.Contents[0].Meta.Next, nil
}

// cancel asks for the end of the task. That it has ended just before is no error.
func (r *Call) cancel(ctx context.Context) error {
	if r.o.Cancel != nil {
		r.o.Cancel()
	}
	var t mcp.Task
	err := r.client.Call(ctx, "tasks/cancel", mcp.TaskParams{TaskID: r.tracker.TaskID()}, &t)
	var e *rpc.Error
	if err != nil && !errors.As(err, &e) && ctx.Err() == nil {
		return err
	}
	if err == nil && r.client.Era() == rpc.Handshake {
		r.tracker.Status(t.Status, t.StatusMessage)
	}
	return nil
}
