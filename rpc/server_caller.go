package rpc

import (
	"context"
	"encoding/json"
	"sync"

	"runnel/rpc/mcp"
)

// Caller is who sent a request and what it can take. It outlives the request: a task notifies through it.
type Caller struct {
	Era          Era
	Version      *mcp.Version
	Client       mcp.Implementation
	Capabilities mcp.ClientCapabilities
	Meta         mcp.RequestMeta // params._meta of the request; what is unusable in it reads as absent

	session *session
	head    []byte
	call    *call // nil for those of OnSession and HandleNotification
}

// ID is the id of the request, byte for byte as the client wrote it: for lines that name it, such as further responses.
func (c *Caller) ID() json.RawMessage { return c.call.id }

// Head is for whoever encodes lines themselves (see Write): what every line for this caller begins with: `{"jsonrpc":"2.0"` and,
// where the request had one, `,"sessionId":…`. It must not be changed.
func (c *Caller) Head() []byte { return c.head }

// InputOpen reports whether the client may send more. What it would have to ask for later need not be offered when it cannot.
func (c *Caller) InputOpen() bool { return c.session.input.Err() == nil }

// ShowsApps reports whether the client shows MCP Apps, and its version has what they live on.
func (c *Caller) ShowsApps() bool {
	return c.Version.ContentMeta && c.Version.StructuredContent && c.Capabilities.ShowsApps()
}

// Notify sends a notification that must arrive, such as a task's status; params may be nil. It never waits for the client to read, so
// whoever calls it must bound how often: what comes again and again is for [Caller.NotifyWait], a stream of notifications for
// [Caller.Write].
func (c *Caller) Notify(method string, params any) error {
	return c.notify(method, params, (*writer).now)
}

// TryNotify is Notify for what the client can do without, such as log messages: it is dropped while the client leaves very much unread.
func (c *Caller) TryNotify(method string, params any) error {
	return c.notify(method, params, (*writer).try)
}

// NotifyWait is Notify for what comes again and again, such as changes of a list: it waits for its turn, or for the end of ctx, as
// [Caller.Write] does.
func (c *Caller) NotifyWait(ctx context.Context, method string, params any) error {
	return c.notify(method, params, func(w *writer, line []byte) error { return w.inTurn(ctx, line, 0) })
}

func (c *Caller) notify(method string, params any, write func(w *writer, line []byte) error) error {
	return notify(c.head, method, params, func(line []byte) error {
		return c.through(func(w *writer) error { return write(w, line) })
	})
}

// InputEnded is closed when the client will send nothing more. A request that is answered only when its client says so,
// such as a subscription, ends then; at the latest when what it tells about has ended, if the session waits for that (see Patient).
func (c *Caller) InputEnded() <-chan struct{} { return c.session.input.Done() }

// WhileOpen returns a context that ends with the session, too: for what goes on for a client after its request, such as telling it of
// changes.
func (c *Caller) WhileOpen(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(c.session.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

// Patient reports whether the session goes on after the end of the input until all calls are done (Options.Drain < 0). A
// [Session] does not: over HTTP it may be that of a single request, after which the client goes on with another.
func (c *Caller) Patient() bool { return c.session.in != nil && c.session.srv.opt.Drain < 0 }

// Stream keeps the request's id in flight after its response: for a dialect in which more of them go out under it (SEP-1905). end must be
// called before the last one is written, since the client may use the id again then. It may be called again.
func (c *Caller) Stream() (end func()) {
	calls, key := &c.session.incoming, c.call.key
	calls.stream(key, true)
	return sync.OnceFunc(func() { calls.stream(key, false) })
}

// Write is for a stream: it waits for its turn among all others, then the writer pulls. It calls encode, which appends complete lines
// (each with its '\n') to dst and returns it. Who waits is pulled one after the other, after all control messages that wait, as soon as the
// write at hand is over. So encode is called as late as can be: a slow client makes for larger batches. Nothing of another stream or of the
// control messages comes between the lines that encode appends, and what is queued after Write has returned comes after them.
//
// encode is called at most once, on the writer's goroutine, and never after Write has returned. It is not called at all
// when Write returns an error: ctx ended first, or the output is gone. It appends 64 KiB or so, and may take short locks; it must
// not block, nor call back into this package. A client that does not read makes Write wait, and only ctx ends that.
func (c *Caller) Write(ctx context.Context, encode func(dst []byte) []byte) error {
	return c.through(func(w *writer) error { return w.awaitTurn(ctx, encode, 0) })
}

// Turns is Write for those who do not wait. enter asks for a turn, once the last has begun: then encode is called, or over with the reason if
// the output is gone. leave takes that back if it is not too late. Neither waits, nor calls encode or over itself: both may be called under
// locks, and from within encode.
func (c *Caller) Turns(encode func(dst []byte) []byte, over func(err error)) (enter, leave func()) {
	w, t := c.session.w, &turn{encode: encode, over: over}
	if c.call == nil || c.call.w == w {
		return func() { w.enter(t) }, func() { w.leave(t) }
	}
	own := &turn{encode: encode, over: func(err error) {
		if err == ErrClosed { // as in through
			w.enter(t)
		} else {
			over(err)
		}
	}}
	return func() { c.call.w.enter(own) }, func() { c.call.w.leave(own); w.leave(t) }
}

// Hold keeps open what answers the request, so that what is written for it goes the same way, until end is called. Nothing else ends it.
// It matters where each request has a way of its own, such as an HTTP response.
func (c *Caller) Hold() (end func()) {
	if c.call == nil || !c.call.w.hold() {
		return func() {}
	}
	return sync.OnceFunc(c.call.w.letGo)
}

// through writes by what answers the request, or has answered it. Once that is closed, what is written goes with what belongs to no request.
func (c *Caller) through(write func(*writer) error) error {
	if c.call != nil && c.call.w != c.session.w {
		if err := write(c.call.w); err != ErrClosed {
			return err
		}
	}
	return write(c.session.w)
}

// Request asks the client, or by it its user or its model, and waits for its answer, which is decoded into result (nil = not wanted).
// params may be nil. It returns the client's error as an *[Error], and [ErrClosed] when the client can answer no more. If ctx ends first,
// the client is told by notifications/cancelled. A client that does not read is asked when it does.
func (c *Caller) Request(ctx context.Context, method string, params, result any) error {
	q := &question{method: method, params: params, head: c.head, w: c.session.w}
	if c.call != nil && c.call.w != q.w && c.call.w.hold() { // until it is answered
		q.w = c.call.w
		defer q.w.letGo()
	}
	if asked, ok := params.(mcp.ElicitParams); ok {
		// "All requests, notifications, and responses related to a task MUST include" its id (2025-11-25 basic/utilities/tasks)
		q.meta = asked.Meta
	}
	answer, err := c.session.ask(ctx, q)
	switch {
	case err != nil && err == context.Cause(ctx):
		return ctx.Err()
	case err != nil || result == nil:
		return err
	}
	return json.Unmarshal(answer, result)
}

// SessionValue returns what a room remembers of the caller's session under a key of its own, made by fresh for the first who asks. It is
// for what holds for one client only, such as what it has subscribed to, and lives as long as the session. fresh may be called in vain.
func (c *Caller) SessionValue(key any, fresh func() any) any {
	values := &c.session.values
	value, ok := values.Load(key)
	if !ok {
		value, _ = values.LoadOrStore(key, fresh())
	}
	return value
}
