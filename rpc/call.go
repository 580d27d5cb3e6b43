package rpc

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"runnel/rpc/mcp"
)

// start answers an admitted request in its own goroutine. The requests of a batch start after the whole batch
// has been read.
func (c *call) start(h func(context.Context) (any, error)) {
	run := func() {
		GrowStack()
		c.answer(c.handle(h))
	}
	if c.batch == nil {
		go run()
	} else {
		c.batch.join(run)
	}
}

// answer sends the response.
//
// It does not use Conn.Reply, which would encode the result three times (5 µs, a fifth of an echo), write "<"
// as six bytes, and know neither the other side's own id nor batches. The Conn keeps nothing of a request
// that it has passed on, so it does not miss the reply.
func (c *call) answer(result any, err error) {
	wanted := c.incoming.finish(c)
	defer c.incoming.leave(c)
	defer c.cancel(nil)
	if !wanted {
		c.incoming.freeSlots(1)
		defer c.w.release()
	}
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
	if c.batch == nil { // the responses of a batch do not stand alone
		e.buf.WriteString(a.Mark)
	}
	if err := e.response(c.head, c.id, a.Result, c.failure(err), c.dress); err != nil {
		c.log.Error().Err(err).Str("method", c.method).Msg("a result cannot be encoded")
	}
	if c.batch != nil {
		c.batch.add(e.buf.Bytes(), 1, a)
		return
	}
	err = c.w.reply(c.parent, e.buf.Bytes())
	if err != nil {
		c.incoming.freeSlots(1)
	}
	a.settle(err == nil)
}

// handle calls the handler. A panic fails only this request.
func (c *call) handle(h func(context.Context) (any, error)) (result any, err error) {
	defer func() {
		if p := recover(); p != nil {
			c.log.Error().Str("method", c.method).Str("panic", fmt.Sprint(p)).Bytes("stack", debug.Stack()).Msg("a handler panicked")
			result, err = nil, errInternal
		}
	}()
	return h(c.ctx)
}

// failure turns a handler's error into the error that the client gets, nil for nil. It is the only place
// where an error gets its code.
func (c *call) failure(err error) *Error {
	if err == nil {
		return nil
	}
	var e *Error
	switch {
	case errors.As(err, &e):
		return e
	case context.Cause(c.ctx) == ErrShutdown && (errors.Is(err, context.Canceled) || errors.Is(err, ErrShutdown)):
		return Errorf(mcp.CodeBusy, "%v", ErrShutdown)
	}
	c.log.Error().Err(err).Str("method", c.method).Msg("a request failed")
	return errInternal
}
