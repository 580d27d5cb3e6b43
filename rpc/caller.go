package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

// Caller is the sender of a request, with what it can take. It outlives the request: a task notifies through
// it.
type Caller struct {
	Era          Era
	Version      *mcp.Version
	Client       mcp.Implementation
	Capabilities mcp.ClientCapabilities
	Meta         mcp.RequestMeta // params._meta of the request; unusable members read as absent

	session *session
	head    []byte
	call    *call // nil in OnSession, and for a notification
}

// ID is the id of the request, byte for byte as the client wrote it.
func (c *Caller) ID() json.RawMessage { return c.call.id }

// Head is the beginning of every line for this caller: `{"jsonrpc":"2.0"` and, if the request had one,
// `,"sessionId":…`. It must not be changed.
func (c *Caller) Head() []byte { return c.head }

// InputOpen reports whether the client may send more. If it may not, do not offer it anything that it would
// have to request later.
func (c *Caller) InputOpen() bool { return c.session.input.Err() == nil }

// ShowsApps reports whether the client shows MCP Apps, and its protocol version has the members that they
// need.
func (c *Caller) ShowsApps() bool {
	return c.Version.ContentMeta && c.Version.StructuredContent && c.Capabilities.ShowsApps()
}

// Notify sends a notification that must arrive, such as a task's status; params may be nil. It never waits
// for the client to read, so its callers must bound how often they call it. For repeated notifications use
// [Caller.NotifyWait], for a stream of them [Caller.Write].
func (c *Caller) Notify(method string, params any) error {
	return c.notify(method, params, (*writer).now)
}

// TryNotify is Notify for what the client can do without, such as log messages. They are dropped while too
// much is unread.
func (c *Caller) TryNotify(method string, params any) error {
	return c.notify(method, params, (*writer).try)
}

// NotifyWait is Notify for repeated notifications, such as changes of a list: it waits for its turn, or for
// the end of ctx, as [Caller.Write] does.
func (c *Caller) NotifyWait(ctx context.Context, method string, params any) error {
	return c.notify(method, params, func(w *writer, line []byte) error { return w.inTurn(ctx, line, 0) })
}

func (c *Caller) notify(method string, params any, write func(w *writer, line []byte) error) error {
	return notify(c.head, method, params, func(line []byte) error {
		return c.through(func(w *writer) error { return write(w, line) })
	})
}

// InputEnded is closed when the client will send nothing more. A request that only its client can end, such
// as a subscription, ends then or, if the session lasts until all calls are done (see Patient), when there is
// nothing left to report.
func (c *Caller) InputEnded() <-chan struct{} { return c.session.input.Done() }

// WhileOpen returns a context that also ends with the session.
func (c *Caller) WhileOpen(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(c.session.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

// InBatch reports whether the answer is part of a batch, and so waits for the others.
func (c *Caller) InBatch() bool { return c.call != nil && c.call.batch != nil }

// Patient reports whether the session lasts after the end of the input until all calls are done
// (Options.Drain < 0). A [Session] does not: over HTTP it may serve a single request, after which the client
// continues with another.
func (c *Caller) Patient() bool { return c.session.conn != nil && c.session.srv.opt.Drain < 0 }

// OnThisMachine reports whether the client has started this program and talks to its stdin, so that its user
// can open a page of this machine. One that comes over HTTP may be anywhere.
func (c *Caller) OnThisMachine() bool { return c.session.conn != nil }

// Stream keeps the request's id in flight after its response, for a dialect that sends more responses under
// it (SEP-1905). Call end before the last one is written, since the client may reuse the id then. end may be
// called again.
func (c *Caller) Stream() (end func()) {
	calls, key := &c.session.incoming, c.call.key
	calls.stream(key, true)
	return sync.OnceFunc(func() { calls.stream(key, false) })
}

// Write is for a stream. It waits for its turn among all other streams, then the writer calls encode, which
// appends complete lines (each with its '\n') to dst and returns it. Turns come one after the other, after
// all waiting control lines, as soon as the current write is done. So encode is called as late as possible: a
// slow client gets larger batches. No other line comes between those that encode appends, and whatever is
// queued after Write has returned comes after them.
//
// encode is called at most once, on the writer's goroutine, never after Write has returned, and not at all if
// Write returns an error: ctx ended first, or the output is gone. It should append some 64 KiB and may take
// short locks; it must not block, nor call back into this package. If the client does not read, Write waits
// until ctx ends.
func (c *Caller) Write(ctx context.Context, encode func(dst []byte) []byte) error {
	return c.through(func(w *writer) error { return w.awaitTurn(ctx, encode, 0) })
}

// Hold keeps the output that answers the request open until end is called, so that lines written for the
// request go the same way. It matters where each request has its own output, such as an HTTP response.
func (c *Caller) Hold() (end func()) {
	if c.call == nil || !c.call.w.hold() {
		return func() {}
	}
	return sync.OnceFunc(c.call.w.release)
}

// through writes to the output that answers the request. Once that is closed, lines go to the output for what
// belongs to no request.
func (c *Caller) through(write func(*writer) error) error {
	if c.call != nil && c.call.w != c.session.w {
		if err := write(c.call.w); err != ErrClosed {
			return err
		}
	}
	return write(c.session.w)
}

// Request asks the client, and through it its user or its model, and decodes the answer into result (nil if
// it is not wanted). params may be nil. A task's question whose exchange ends goes to the output for what
// belongs to no request. It returns the client's error as an *[Error], and [ErrClosed] if the client can no
// longer answer. If ctx ends first, it sends notifications/cancelled. A client that does not read is asked
// once it does.
func (c *Caller) Request(ctx context.Context, method string, params, result any) error {
	req := &request{method: method, params: params, head: c.head, w: c.session.w}
	if c.call != nil && c.call.w != req.w && c.call.w.hold() { // until it is answered
		req.w = c.call.w
		defer req.w.release()
	}
	// "All requests, notifications, and responses related to a task MUST include" its id (2025-11-25
	// basic/utilities/tasks)
	switch asked := params.(type) {
	case mcp.ElicitParams:
		req.meta = asked.Meta
	case json.RawMessage:
		if related := rawjson.Member(rawjson.Member(asked, "_meta"), mcp.MetaRelatedTask); related != nil {
			req.meta = map[string]any{mcp.MetaRelatedTask: json.RawMessage(related)}
		}
	}
	again := *req
	answer, err := c.session.send(ctx, req)
	// A task outlives the exchange that began it.
	if errors.Is(err, ErrClosed) && req.w != c.session.w && req.meta != nil {
		again.w = c.session.w
		answer, err = c.session.send(ctx, &again)
	}
	switch {
	case err != nil && err == context.Cause(ctx):
		return ctx.Err()
	case err != nil || result == nil:
		return err
	}
	return json.Unmarshal(answer, result)
}

// SessionValue returns a value that lives as long as the caller's session; fresh makes it when it is first
// asked for. Use it for what concerns only one client, such as its subscriptions, under a key that no other
// package has. fresh may be called without its value being used.
func (c *Caller) SessionValue(key any, fresh func() any) any {
	values := &c.session.values
	value, ok := values.Load(key)
	if !ok {
		value, _ = values.LoadOrStore(key, fresh())
	}
	return value
}
