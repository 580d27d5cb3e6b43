package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"runnel/partials/tracker"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks"
)

const (
	// defaultPoll is how often a task is asked for that does not tell how often it may be.
	defaultPoll = 2 * time.Second
	leastPoll   = 100 * time.Millisecond
	// cancelGrace is how long a call may take to end when it has been cancelled: longer than the 5 s that a command gets
	// between TERM and KILL.
	cancelGrace = 8 * time.Second
)

// task is what a call may become at the server. What goes on beside the call ends with it.
type task struct {
	o       *Options
	asked   *questions
	tracker *tracker.Tracker
	changed chan struct{}      // capacity 1: something about the call has come
	early   chan resultOrError // capacity 1: the answer to awaitResult

	// Set when the call is made.
	client *rpc.Client
	tool   string
	all    context.Context // ends with the call, and with the connection

	background sync.WaitGroup

	mu     sync.Mutex
	ended  bool // nothing more may be started in the background
	awaits bool // the result has been asked for
	spoken bool // a notification has come since the last poll
}

// resultOrError is the answer to tasks/result.
type resultOrError struct {
	result json.RawMessage
	err    error
}

// start starts something in the background.
func (t *task) start(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.ended {
		t.background.Go(f)
	}
}

// end waits for all that goes on in the background, which stop ends.
func (t *task) end(stop func()) {
	t.mu.Lock()
	t.ended = true
	t.mu.Unlock()
	stop()
	t.background.Wait()
}

func (t *task) wake() {
	select {
	case t.changed <- struct{}{}:
	default:
	}
}

// speaks takes note of a notification of the task's.
func (t *task) speaks() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.spoken = true
}

// spoke reports whether there was one since this was asked last.
func (t *task) spoke() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	spoken := t.spoken
	t.spoken = false
	return spoken
}

// await waits until the task has ended and its output is here. When ctx ends it cancels the task, and waits a little.
func (t *task) await(ctx context.Context, capabilities *mcp.ClientCapabilities) error {
	if t.client.Era() == rpc.Stateless {
		t.start(func() { t.listen(capabilities) })
	}
	poll := defaultPoll
	seen := int64(0) // the last segment at the last poll
	timer := time.NewTimer(poll)
	defer timer.Stop()
	asking, cancelled := ctx, ctx.Done() // asking is for requests: one that the server does not answer ends with it
	var deadline <-chan struct{}
	for !t.gathered(asking) {
		select {
		case <-t.changed:
		case <-t.client.Done():
			return fmt.Errorf("%w: %w", rpc.ErrClosed, t.client.Err())
		case <-cancelled:
			var stop context.CancelFunc
			asking, stop = context.WithTimeout(t.all, cancelGrace)
			defer stop()
			cancelled, deadline = nil, asking.Done()
			if err := t.cancel(asking); err != nil {
				return err
			}
		case <-deadline:
			return fmt.Errorf("cancelled, but it has not ended within %v", cancelGrace)
		case <-timer.C:
			// "Requestors MUST NOT rely on receiving this notification": they poll.
			poll = t.poll(asking, poll)
			timer.Reset(poll)
			// A server of SEP-1905 that pushes nothing is asked for what there is.
			if last, more := t.tracker.Rest(); more && last == seen {
				t.pull(asking)
			}
			seen, _ = t.tracker.Rest()
		}
	}
	return nil
}

// gathered reports whether the task has ended and all of its output is here that can be had. What was not pushed it fetches.
func (t *task) gathered(ctx context.Context) bool {
	for {
		if end, _ := t.tracker.End(); end == tracker.Running || t.tracker.Ranging() {
			return false
		}
		if _, more := t.tracker.Rest(); !more {
			return true
		}
		if asked, got := t.pull(ctx); !got {
			return asked // else somebody else's answer is awaited
		}
	}
}

// result gets the result of a task that has ended.
func (t *task) result(ctx context.Context) (json.RawMessage, error) {
	switch end, message := t.tracker.End(); {
	case end == tracker.Expired:
		return nil, errors.New("the task has expired: the server does not know it any more")
	case end == tracker.Cancelled && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case end == tracker.Cancelled:
		return nil, fmt.Errorf("the task was cancelled: %s", message)
	}
	if t.client.Era() == rpc.Stateless {
		var got struct {
			Result json.RawMessage `json:"result"`
			Error  *rpc.Error      `json:"error"`
		}
		err := t.client.Call(ctx, "tasks/get", mcp.TaskParams{TaskID: t.tracker.TaskID()}, &got)
		if err == nil && got.Error != nil {
			err = got.Error
		}
		return got.Result, err
	}
	// "The canonical result MUST be retrieved via tasks/result" (SEP-2679 1.3.6).
	t.awaitResult(t.tracker.TaskID())
	select {
	case end := <-t.early:
		return end.result, end.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// state looks at what the task says of itself.
func (t *task) state(s *mcp.DetailedTask) {
	if t.o.Status != nil && !s.Status.Terminal() {
		t.o.Status(s.Status, s.StatusMessage)
	}
	if s.Status == mcp.TaskInputRequired && t.client.Era() == rpc.Handshake {
		t.awaitResult(s.TaskID)
	}
	for key, q := range s.InputRequests {
		if done, ok := t.asked.take(key, q); ok {
			t.start(func() {
				defer done()
				t.answer(s.TaskID, key, q)
			})
		}
	}
}

// awaitResult asks for the result, once. For a task that has not ended: "When the requestor encounters the input_required status, it
// SHOULD preemptively call tasks/result", since some servers ask only then (2025-11-25 tasks, "Input Required Status").
func (t *task) awaitResult(id string) {
	t.mu.Lock()
	again := t.awaits
	t.awaits = true
	t.mu.Unlock()
	if again {
		return
	}
	t.start(func() {
		var end resultOrError
		end.err = t.client.Call(t.all, "tasks/result", mcp.TaskParams{TaskID: id}, &end.result)
		t.early <- end
	})
}

// answer answers a question of a task of the stateless era.
func (t *task) answer(id, key string, q mcp.InputRequest) {
	response, err := t.asked.put(t.all, q)
	if err != nil && q.Method == "elicitation/create" {
		response, err = rawjson.Encode(mcp.ElicitResult{Action: mcp.ElicitCancel}), nil
	}
	if err == nil {
		err = t.client.Call(t.all, "tasks/update", mcp.UpdateTaskParams{TaskID: id, InputResponses: map[string]json.RawMessage{key: response}}, nil)
	}
	if err != nil && t.all.Err() == nil {
		t.o.Log.Warn().Err(err).Str("tool", t.tool).Msg("answering a question")
	}
}

// listen subscribes to a task of the stateless era: its states and its output.
func (t *task) listen(capabilities *mcp.ClientCapabilities) {
	_, err := t.client.Do(t.all, &rpc.Request{
		Method:       "subscriptions/listen",
		Params:       mcp.ListenParams{Notifications: &mcp.SubscriptionFilter{TaskIDs: []string{t.tracker.TaskID()}}},
		Capabilities: capabilities,
	})
	if err != nil && t.all.Err() == nil {
		t.o.Log.Debug().Err(err).Str("tool", t.tool).Msg("no subscription: polling")
	}
}

// poll asks for the task; it returns when to ask again.
func (t *task) poll(ctx context.Context, before time.Duration) time.Duration {
	var state struct {
		mcp.DetailedTask
		PollInterval int64 `json:"pollInterval"`
	}
	err := t.client.Call(ctx, "tasks/get", mcp.TaskParams{TaskID: t.tracker.TaskID()}, &state)
	var e *rpc.Error
	switch {
	case errors.As(err, &e) && e.Code == mcp.CodeInvalidParams:
		t.tracker.Finish(tracker.Expired, e.Message)
		return before
	case err != nil:
		return before
	}
	if spoke := t.spoke(); state.Status.Terminal() && spoke && t.client.Era() == rpc.Stateless {
		// The subscription goes on: what of the output is still on its way comes before the end that it tells.
		return before
	}
	t.state(&state.DetailedTask)
	t.tracker.Status(state.Status, state.StatusMessage)
	if ms := max(state.PollInterval, state.PollIntervalMs); ms > 0 {
		return max(time.Duration(ms)*time.Millisecond, leastPoll)
	}
	return before
}

// pull asks for segments that were not pushed (SEP-1905), unless the answer to such a request is awaited already. got: some came, or
// are being fetched after what has come, so there may be more.
func (t *task) pull(ctx context.Context) (asked, got bool) {
	last, ok := t.tracker.Poll()
	if !ok {
		return false, false
	}
	t.fetch(ctx, last)
	after, ok := t.tracker.Rest()
	return true, ok && (after > last || t.tracker.Fetching())
}

func (t *task) fetch(ctx context.Context, last int64) {
	var page json.RawMessage
	err := t.client.Call(ctx, "tasks/result", mcp.TaskParams{TaskID: t.tracker.TaskID(), LastSeqNr: fmt.Append(nil, last)}, &page)
	t.tracker.Fetched(page, err)
}

// resume gets what is missing in a stream.
func (t *task) resume(last int64) {
	t.start(func() {
		t.fetch(t.all, last)
		t.wake()
	})
}

// resumeRange is resume for what is read from the log.
func (t *task) resumeRange(after int64) {
	t.start(func() {
		t.tracker.FetchedRange(t.readLog(t.all, after))
		t.wake()
	})
}

// readLog reads the task's log from a position on, where the server is a runnel.
func (t *task) readLog(ctx context.Context, after int64) (text string, next int64, err error) {
	if t.client.Capabilities().Resources == nil {
		return "", 0, errors.New("the server has no resources")
	}
	uri := fmt.Sprintf("%s?after=%d", tasks.LogURI(t.tracker.TaskID()), after)
	var read struct {
		Contents []struct {
			Text string `json:"text"`
			Meta struct {
				Next int64 `json:"runnel/next"`
			} `json:"_meta"`
		} `json:"contents"`
	}
	if err := t.client.Call(ctx, "resources/read", mcp.ResourceParams{URI: uri}, &read); err != nil {
		return "", 0, err
	}
	if len(read.Contents) != 1 {
		return "", 0, fmt.Errorf("%d contents", len(read.Contents))
	}
	return read.Contents[0].Text, read.Contents[0].Meta.Next, nil
}

// cancel asks for the end of the task. That it has ended just before is not an error.
func (t *task) cancel(ctx context.Context) error {
	var state mcp.Task
	err := t.client.Call(ctx, "tasks/cancel", mcp.TaskParams{TaskID: t.tracker.TaskID()}, &state)
	var e *rpc.Error
	if err != nil && !errors.As(err, &e) && ctx.Err() == nil {
		return err
	}
	if err == nil && t.client.Era() == rpc.Handshake {
		t.tracker.Status(state.Status, state.StatusMessage)
	}
	return nil
}
