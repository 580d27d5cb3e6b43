package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"sync"

	"github.com/sourcegraph/jsonrpc2"

	"runnel/rpc/mcp"
)

// Caller is who sent a request and what it can take. It outlives the request: a task notifies through it.
type Caller struct {
	Era          Era
	Version      *mcp.Version
	Client       mcp.Implementation
	Capabilities mcp.ClientCapabilities
	Meta         mcp.RequestMeta // params._meta of the request; what is unusable in it reads as absent

	id      json.RawMessage
	head    []byte
	session *session
	call    *call // nil for that of OnSession
}

// ID is the id of the request, byte for byte as the client wrote it.
func (c *Caller) ID() json.RawMessage { return c.id }

// Head is what every line for this caller begins with: `{"jsonrpc":"2.0"` and,
// where the request had one, `,"sessionId":…`. It must not be changed.
func (c *Caller) Head() []byte { return c.head }

// Listens tells whether the client may send more: false once the input has ended.
func (c *Caller) Listens() bool { return c.session.input.Err() == nil }

// Notify sends a notification; params may be nil. It never waits for the client to read, so whoever calls it must bound
// how often: what comes again and again is for [Caller.NotifyInTurn], a stream of notifications for a [Lane].
func (c *Caller) Notify(method string, params any) error {
	return c.notify(method, params, func(line []byte) error { return c.session.w.control(line, 0) })
}

// NotifyInPassing is Notify for what the client can do without: it is dropped where very much is unread.
func (c *Caller) NotifyInPassing(method string, params any) error {
	return c.notify(method, params, func(line []byte) error {
		c.session.w.passing(line)
		return nil
	})
}

// NotifyInTurn is Notify that waits for its turn and for room, or for the end of ctx, as [Lane.Write] does.
func (c *Caller) NotifyInTurn(ctx context.Context, method string, params any) error {
	return c.notify(method, params, func(line []byte) error {
		return c.Lane().Write(ctx, func(dst []byte) []byte { return append(dst, line...) })
	})
}

func (c *Caller) notify(method string, params any, write func(line []byte) error) error {
	e := newEncoder()
	defer e.free()
	if err := e.notification(c.head, method, params); err != nil {
		return err
	}
	return write(e.line())
}

// InputEnded is closed when the client will send nothing more. A request that is answered only when its client says so,
// such as a subscription, ends then; at the latest when what it tells about has ended, if the session waits for that (see Patient).
func (c *Caller) InputEnded() <-chan struct{} { return c.session.input.Done() }

// Patient tells whether the session goes on after the end of the input until all calls are done (Options.Drain < 0).
func (c *Caller) Patient() bool { return c.session.srv.opt.Drain < 0 }

// Answer answers the request while its handler goes on: it does not count what the handler returns, nor any later answer.
func (c *Caller) Answer(result any, err error) { c.call.answer(result, err) }

// OnCancel sets what runs, in a goroutine of its own, when the request's context ends before the request has been answered.
func (c *Caller) OnCancel(f func()) { c.session.calls.onCancel(c.call, f) }

// Stream keeps the request's id in flight behind its response: more of them will go out under it. end must be called before the last
// one is written, since the client may use the id again then. It may be called again.
func (c *Caller) Stream() (end func()) {
	calls, key := c.session.calls, c.call.key
	calls.stream(key, true)
	return sync.OnceFunc(func() { calls.stream(key, false) })
}

// Lane makes a new lane of the output, for one stream.
func (c *Caller) Lane() *Lane { return &Lane{w: c.session.w} }

// question is a request of ours that the client has not answered.
type question struct {
	answer json.RawMessage
	err    *Error
}

// Request asks the client and waits for its answer, which is decoded into result (nil = not wanted). params may be nil.
// It returns the client's error as an *[Error], and [ErrClosed] when the client can answer no more.
// If ctx ends first, the client is told by notifications/cancelled. A client that does not read is asked when it does.
func (c *Caller) Request(ctx context.Context, method string, params, result any) error {
	s := c.session
	// Once the input has ended no answer can come, but the session may go on for long (Options.Drain).
	wait, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.input, cancel)()
	if err := c.Lane().Write(wait, func(dst []byte) []byte { return dst }); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return ErrClosed
	}

	q := &question{}
	s.mu.Lock()
	s.askedID++ // from 1: two clients ignore a cancellation of id 0
	id := s.askedID
	s.asked[id] = q
	s.mu.Unlock()

	opts := []jsonrpc2.CallOption{jsonrpc2.PickID(jsonrpc2.ID{Num: id})}
	if _, sessionID, ok := bytes.Cut(c.head, []byte(`,"sessionId":`)); ok {
		opts = append(opts, jsonrpc2.ExtraField("sessionId", json.RawMessage(sessionID)))
	}
	waiter, err := s.conn.DispatchCall(wait, method, params, opts...)
	if err == nil {
		err = waiter.Wait(wait, nil)
	} else {
		s.forget(id)
	}
	switch {
	case err == nil && result != nil:
		return json.Unmarshal(q.answer, result)
	case err == nil:
		return nil
	case errors.As(err, new(*jsonrpc2.Error)):
		return q.err
	case ctx.Err() != nil:
		s.takeBack(id)
		_ = c.Notify("notifications/cancelled", mcp.CancelledParams{RequestID: strconv.AppendUint(nil, id, 10), Reason: context.Cause(ctx).Error()})
		return ctx.Err()
	case errors.Is(err, jsonrpc2.ErrClosed), s.input.Err() != nil:
		return ErrClosed
	}
	return err
}

// forget takes a question out of those that wait for an answer, nil if it is none.
func (s *session) forget(id uint64) *question {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.asked[id]
	delete(s.asked, id)
	return q
}

// takeBack forgets a question that nobody waits for any more. The Conn forgets one only with its answer, which a client that
// is told of the cancellation does not send: the reader makes one up (takenBack).
func (s *session) takeBack(id uint64) {
	if s.forget(id) == nil {
		return // the answer is on its way
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.moot = append(s.moot, id)
}

// takenBack is a question that the Conn has to forget.
func (s *session) takenBack() (id uint64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.moot) == 0 {
		return 0, false
	}
	id, s.moot = s.moot[0], s.moot[1:]
	return id, true
}

// answered takes a response of the client. ok is false if it answers nothing; such a response is ignored.
func (s *session) answered(e *envelope) (id uint64, failed, ok bool) {
	id, err := strconv.ParseUint(string(e.id), 10, 64)
	q := s.forget(id)
	if err != nil || q == nil {
		s.log.Debug().Bytes("id", e.id).Bytes("error", e.err).Msg("ignoring a response to nothing")
		return 0, false, false
	}
	if e.err != nil {
		q.err = &Error{}
		_ = json.Unmarshal(e.err, q.err) // what is of the wrong type reads as absent
		return id, true, true
	}
	q.answer = bytes.Clone(e.result)
	return id, false, true
}
