package remote

import (
	"context"
	"encoding/json"
	"errors"

	"runnel/internal/signal"
	"runnel/partials/tracker"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

// New prepares a call; Run makes it.
func New(o Options) *Call {
	c := &Call{o: o, changed: signal.NewWake(), early: make(chan resultOrError, 1),
		answered: map[string]bool{}}
	c.tracker = tracker.New(tracker.Options{
		Token:    o.Token,
		Content:  o.Content,
		Gap:      o.Gap,
		Missing:  c.changed.Send,
		NoErrors: o.NoErrors,
	})
	return c
}

// Notification takes a notification of the server, in the order on the wire. It reports whether the
// notification belongs to the call.
func (c *Call) Notification(method string, params json.RawMessage) bool {
	if !c.tracker.Notification(method, params) {
		return false
	}
	c.spoken.Store(true)
	if method == "notifications/tasks/status" || method == "notifications/tasks" {
		var t mcp.DetailedTask
		_ = rawjson.Unmarshal(params, &t) // a member of the wrong type reads as absent
		c.state(&t)
		c.changed.Send()
	}
	return true
}

// Run makes the call and returns its result as it came. When ctx ends, it cancels the call, waits at most 8 s
// for its end, and returns the cause of ctx. Errors of the server are of type *rpc.Error; a connection that
// is lost gives one that wraps [rpc.ErrClosed]. When it returns, all of the output has been handed over. It
// is called once.
func (c *Call) Run(ctx context.Context, client *rpc.Client, call *Params) (json.RawMessage, error) {
	c.client, c.tool = client, call.Tool
	var stop context.CancelFunc
	c.all, stop = context.WithCancel(client.Context())
	result, err := c.run(ctx, call)
	c.end(stop)
	switch {
	case err == nil:
	case errors.Is(err, rpc.ErrClosed):
		c.tracker.Finish(tracker.Lost, err.Error())
	case ctx.Err() != nil:
		c.tracker.Finish(tracker.Cancelled, err.Error())
	default:
		c.tracker.Finish(tracker.Failed, err.Error())
	}
	c.tracker.Flush()
	return result, err
}

// run makes the call and returns its result, from the response or from a task.
func (c *Call) run(ctx context.Context, call *Params) (json.RawMessage, error) {
	var kind tracker.Answer
	raw, err := Rounds(ctx, c.params(call), func(params json.RawMessage) (raw json.RawMessage, asks bool,
		err error) {
		raw, kind, err = c.send(ctx, call, params)
		return raw, kind == tracker.AnswerQuestion, err
	}, c.canPut, c.put)
	if err != nil || kind == tracker.AnswerResult {
		return raw, err
	}
	if c.o.Task != nil {
		c.o.Task(c.tracker.TaskID())
	}
	if err := c.await(ctx, call.Capabilities); err != nil {
		return nil, err
	}
	return c.result(ctx)
}

// params returns the params of the request.
func (c *Call) params(call *Params) json.RawMessage {
	params, meta := call.Base, json.RawMessage(rawjson.Member(call.Base, "_meta"))
	if params == nil {
		params = rawjson.WithMember(nil, "arguments", call.Arguments)
	}
	meta = rawjson.WithMember(meta, "progressToken", c.o.Token)
	switch {
	case call.Task != nil:
		params = rawjson.WithMember(params, "task", call.Task)
	case c.client.Era() == rpc.Stateless:
		meta = rawjson.WithMember(meta, "partialResultToken", c.o.Token)
		if call.LogLevel != "" {
			meta = rawjson.WithMember(meta, mcp.MetaLogLevel, call.LogLevel)
		}
	case !c.o.Whole:
		meta = rawjson.WithMember(meta, "partialResults", true)
	}
	return rawjson.WithMember(rawjson.WithMember(params, "name", call.Tool), "_meta", meta)
}

// send sends the request and returns its first response.
func (c *Call) send(ctx context.Context, call *Params,
	params json.RawMessage) (raw json.RawMessage, kind tracker.Answer, err error) {
	first := make(chan tracker.Answer, 1) // the kind of the first response
	raw, err = c.client.Do(ctx, &rpc.Request{Method: "tools/call", Params: params,
		Capabilities: call.Capabilities, Until: c.all, OnResponse: func(response rpc.Response) bool {
			if response.Err != nil {
				c.tracker.Finish(tracker.Failed, response.Err.Message)
				return false
			}
			kind := tracker.AnswerHandle
			if id := HandedOver(response.Result); id != "" &&
				(c.client.Version().Tasks || c.client.Version().Stateless) {
				c.cutShort.Store(true)
				c.tracker.Handle(id)
			} else {
				kind = c.tracker.Response(response.Result)
			}
			select {
			case first <- kind:
			default:
			}
			c.changed.Send()
			return kind == tracker.AnswerSegments ||
				kind == tracker.AnswerHandle && call.Task != nil && call.Task.ResponseModes != nil
		}})
	if err == nil {
		kind = <-first
	}
	return raw, kind, err
}

// HandedOver returns the task to which a runnel has handed over a plain call that took too long, "" if it has
// not.
func HandedOver(result json.RawMessage) string {
	meta := rawjson.Member(result, "_meta")
	task := rawjson.Member(meta, mcp.MetaTask)
	related := rawjson.Member(meta, mcp.MetaRelatedTask) // a tool that reports on a task does not have it
	id := rawjson.StringMember(task, "taskId")
	if rawjson.StringMember(task, "status") != string(mcp.TaskWorking) ||
		id != rawjson.StringMember(related, "taskId") {
		return ""
	}
	return id
}
