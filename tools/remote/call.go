package remote

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"time"

	"runnel/partials/tracker"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

// Call is one call of a tool of another server, made and followed to its end in whatever era and dialect that server
// speaks: plainly or as a task, with partials in any spelling, questions and a cancel.
type Call struct {
	o    Options
	task task

	cutShort atomic.Bool // the server has handed the call over
}

// New makes what follows a call that is about to be made.
func New(o Options) *Call {
	c := &Call{o: o}
	t := &c.task
	t.o, t.asked, t.changed, t.early = &c.o, &questions{o: &c.o}, make(chan struct{}, 1), make(chan resultOrError, 1)
	t.tracker = tracker.New(tracker.Options{
		Token:      o.Token,
		Content:    o.Content,
		Gap:        o.Gap,
		Fetch:      t.resume,
		FetchRange: t.resumeRange,
	})
	return c
}

// Tracker is the tracker of the call's output.
func (c *Call) Tracker() *tracker.Tracker { return c.task.tracker }

// CutShort reports whether the server has stopped sending the output before its end: what comes after that is in the result only.
func (c *Call) CutShort() bool { return c.cutShort.Load() }

// Notification takes a notification of the server's, in the order on the wire. It reports whether it belongs to the call.
func (c *Call) Notification(method string, params json.RawMessage) bool {
	if !c.task.tracker.Notification(method, params) {
		return false
	}
	c.task.speaks()
	if method == "notifications/tasks/status" || method == "notifications/tasks" {
		var t mcp.DetailedTask
		_ = rawjson.Unmarshal(params, &t) // a member of the wrong type reads as absent
		c.task.state(&t)
		c.task.wake()
	}
	return true
}

// Run makes the call and returns its result as it came. When ctx ends, it cancels the call, waits 8 s at most for its end, and
// returns the cause of ctx. Errors of the server are of type *rpc.Error; a connection that is lost gives one that wraps
// [rpc.ErrClosed]. When it returns, all of the output has been handed over. It is called once.
func (c *Call) Run(ctx context.Context, client *rpc.Client, call *Params) (json.RawMessage, error) {
	t := &c.task
	t.client, t.tool, t.asked.tool = client, call.Tool, call.Tool
	var stop context.CancelFunc
	t.all, stop = context.WithCancel(client.Context())
	result, err := c.run(ctx, call)
	t.end(stop)
	switch {
	case err == nil:
	case errors.Is(err, rpc.ErrClosed):
		t.tracker.Finish(tracker.Lost, err.Error())
	case ctx.Err() != nil:
		t.tracker.Finish(tracker.Cancelled, err.Error())
	default:
		t.tracker.Finish(tracker.Failed, err.Error())
	}
	t.tracker.Flush()
	return result, err
}

// run makes the call, again and again while it is answered with questions, and returns its result, however it comes.
func (c *Call) run(ctx context.Context, call *Params) (json.RawMessage, error) {
	params := c.params(call)
	for pause := leastPoll; ; pause = min(2*pause, defaultPoll) {
		raw, kind, err := c.send(ctx, call, params)
		switch {
		case err != nil:
			return nil, err
		case kind == tracker.AnswerQuestion:
			if params, err = c.answer(ctx, raw, params, pause); err != nil {
				return nil, err
			}
		case kind == tracker.AnswerResult:
			return raw, nil
		default:
			if err := c.task.await(ctx, call.Capabilities); err != nil {
				return nil, err
			}
			return c.task.result(ctx)
		}
	}
}

// params are those of the request.
func (c *Call) params(call *Params) json.RawMessage {
	meta := map[string]any{"progressToken": c.o.Token}
	params := map[string]any{"name": call.Tool, "arguments": call.Arguments, "_meta": meta}
	switch {
	case call.Task != nil:
		params["task"] = call.Task
	case c.task.client.Era() == rpc.Stateless:
		meta["partialResultToken"] = c.o.Token
		if call.LogLevel != "" {
			meta[mcp.MetaLogLevel] = call.LogLevel
		}
	case !c.o.Whole:
		meta["partialResults"] = true
	}
	return rawjson.Encode(params)
}

// send sends the request and returns its first response.
func (c *Call) send(ctx context.Context, call *Params, params json.RawMessage) (raw json.RawMessage, kind tracker.Answer, err error) {
	t := &c.task
	first := make(chan tracker.Answer, 1) // the first of several responses
	raw, err = t.client.Do(ctx, &rpc.Request{Method: "tools/call", Params: params, Capabilities: call.Capabilities, Until: t.all, OnResponse: func(response rpc.Response) bool {
		if response.Err != nil {
			t.tracker.Finish(tracker.Failed, response.Err.Message)
			return false
		}
		kind := tracker.AnswerHandle
		if id := c.handedOver(response.Result); id != "" {
			c.cutShort.Store(true)
			t.tracker.Handle(id)
		} else {
			kind = t.tracker.Response(response.Result)
		}
		select {
		case first <- kind:
		default:
		}
		t.wake()
		return kind == tracker.AnswerSegments || kind == tracker.AnswerHandle && call.Task != nil && call.Task.ResponseModes != nil
	}})
	if err == nil {
		kind = <-first
	}
	return raw, kind, err
}

// handedOver is the task to which a runnel has handed over a plain call that took too long, "" if it has not, or if the task cannot
// be followed: the tasks methods are not there.
func (c *Call) handedOver(result json.RawMessage) string {
	var m struct {
		Meta struct {
			Task struct {
				TaskID string         `json:"taskId"`
				Status mcp.TaskStatus `json:"status"`
			} `json:"runnel/task"`
			Related mcp.RelatedTask `json:"io.modelcontextprotocol/related-task"` // a tool that reports on a task does not have it
		} `json:"_meta"`
	}
	_ = json.Unmarshal(result, &m) // a member of the wrong type reads as absent
	if v := c.task.client.Version(); !v.Tasks && !v.Stateless || m.Meta.Task.Status != mcp.TaskWorking || m.Meta.Task.TaskID != m.Meta.Related.TaskID {
		return ""
	}
	return m.Meta.Task.TaskID
}

// answer answers what the call was answered with, and returns the params of the call to send again. An
// answer without questions is how a server asks for that alone; it "MAY" be done "immediately", but a server that goes on so
// would be called in a loop: there is a pause then.
func (c *Call) answer(ctx context.Context, raw, params json.RawMessage, pause time.Duration) (json.RawMessage, error) {
	asked, err := ReadAsked(raw)
	if err != nil {
		return nil, err
	}
	for _, q := range asked.InputRequests { // before anything is asked for nothing
		if !c.task.asked.canPut(q) {
			return nil, errCannotPut(q)
		}
	}
	params, err = asked.Answer(ctx, params, c.task.asked.put)
	if len(asked.InputRequests) == 0 {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		case <-c.task.client.Done():
		}
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return params, err
}
