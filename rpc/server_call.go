package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"

	"runnel/rpc/mcp"
)

// call is a request in flight.
type call struct {
	caller  Caller
	method  string
	params  json.RawMessage
	batch   *batch // the batch it came in, nil if it came alone
	session *session
	ctx     Context

	key string // owned by inflight

	// Guarded by inflight.mu.
	cancelled bool
	answered  bool
	onCancel  func() // nil: nobody wants to know
}

// run answers the request.
func (c *call) run(h Handler) { c.answer(c.handle(h)) }

// answer sends the response. Only the first answer counts.
func (c *call) answer(result any, err error) {
	s := c.session
	first, wanted := s.calls.finish(c)
	if !first {
		return
	}
	defer s.calls.leave(c)
	defer c.ctx.Cancel(nil)
	if c.batch != nil {
		defer c.batch.leave()
	}
	a, ok := result.(After)
	if !ok {
		a = After{Result: result}
	}
	if !wanted {
		a.settle(false)
		return
	}
	e := newEncoder()
	defer e.free()
	failure := c.failure(err)
	if failure == nil && c.caller.Era == Stateless {
		if a.Result, err = s.srv.dress(&c.caller, a.Result); err != nil {
			s.log.Error().Err(err).Str("method", c.method).Msg("a result cannot be encoded")
			failure = errInternal
		}
	}
	if err := e.response(c.caller.head, c.caller.id, a.Result, failure); err != nil {
		s.log.Error().Err(err).Str("method", c.method).Msg("a result cannot be encoded")
	}
	if c.batch != nil {
		c.batch.add(e.buf.Bytes(), 1, a)
		return
	}
	a.settle(s.w.reply(s.ctx, e.line()) == nil)
}

// handle calls the handler. A panic of one handler is its own.
func (c *call) handle(h Handler) (result any, err error) {
	defer func() {
		if p := recover(); p != nil {
			c.session.log.Error().Str("method", c.method).Str("panic", fmt.Sprint(p)).Bytes("stack", debug.Stack()).Msg("a handler panicked")
			result, err = nil, errInternal
		}
	}()
	return h(&c.ctx, &c.caller, c.params)
}

// failure turns a handler's error into what the client is told, nil if there is none.
// It is the only place where an error gets its code.
func (c *call) failure(err error) *Error {
	if err == nil {
		return nil
	}
	var e *Error
	switch {
	case errors.As(err, &e):
		return e
	case context.Cause(&c.ctx) == ErrShutdown && (errors.Is(err, context.Canceled) || errors.Is(err, ErrShutdown)):
		return Errorf(mcp.CodeBusy, "%v", ErrShutdown)
	}
	c.session.log.Error().Err(err).Str("method", c.method).Msg("a request failed")
	return errInternal
}

// settle runs what stands behind the response.
func (a *After) settle(sent bool) {
	switch {
	case sent && a.Do != nil:
		a.Do()
	case !sent && a.Drop != nil:
		a.Drop()
	}
}
