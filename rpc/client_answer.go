package rpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

// request answers a request of the server's. Until the server reads the answer, the request counts as being answered.
func (c *Client) request(e *envelope) {
	id, method := bytes.Clone(e.id), rawjson.Unquote(e.method)
	switch {
	case method == "ping":
		c.answerCheaply(id, nil)
		return
	case c.opt.OnRequest == nil:
		c.answerCheaply(id, Errorf(mcp.CodeMethodNotFound, "method not found: %.100q", method))
		return
	}
	key := idKey(id)
	ctx, cancel := context.WithCancelCause(c.ctx)
	var refused *Error
	c.mu.Lock()
	switch {
	case c.answering[key] != nil:
		refused = Errorf(mcp.CodeInvalidRequest, "the id %s is still in flight", id)
	case len(c.answering) >= maxAnswering:
		refused = Errorf(mcp.CodeInvalidRequest, "too many requests: the limit is %d at once", maxAnswering)
	default:
		c.answering[key] = cancel
	}
	c.mu.Unlock()
	if refused != nil {
		cancel(nil)
		c.answerCheaply(id, refused)
		return
	}
	params := bytes.Clone(e.params)
	c.answerers.Go(func() {
		defer cancel(nil)
		result, err := c.handle(ctx, method, params)
		var failure *Error
		if err != nil && !errors.As(err, &failure) {
			failure = Errorf(mcp.CodeInternalError, "%v", err)
		}
		line := c.answer(id, result, failure)
		// "Not send a response for the cancelled request"
		if context.Cause(ctx) == errCancelledByServer || c.write(ctx, func(dst []byte) []byte { c.endAnswering(key); return append(dst, line...) }) != nil {
			c.endAnswering(key)
		}
	})
}

// handle calls OnRequest. A panic fails this request: the server must not wait for its answer for ever.
func (c *Client) handle(ctx context.Context, method string, params []byte) (result any, err error) {
	defer func() {
		if p := recover(); p != nil {
			c.opt.Log.Error().Str("method", method).Str("panic", fmt.Sprint(p)).Bytes("stack", debug.Stack()).Msg("answering a server panicked")
			result, err = nil, errInternal
		}
	}()
	return c.opt.OnRequest(ctx, method, params)
}

// maxAnswering is how many requests of the server may be answered at once. Few servers ask for more than one thing.
const maxAnswering = 64

// endAnswering forgets a request of the server's, whose id may come again from now on.
func (c *Client) endAnswering(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.answering, key)
}

// answer encodes a response.
func (c *Client) answer(id []byte, result any, failure *Error) []byte {
	e := newEncoder()
	defer e.free()
	if err := e.response(lineHead, id, result, failure); err != nil {
		c.opt.Log.Error().Err(err).Msg("an answer cannot be encoded")
	}
	return bytes.Clone(e.line())
}

// answerCheaply sends a response that can be dropped when the server does not read.
func (c *Client) answerCheaply(id []byte, failure *Error) {
	c.w.try(c.answer(id, nil, failure))
}

var errCancelledByServer = errors.New("cancelled by the server")
