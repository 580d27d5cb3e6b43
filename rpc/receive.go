package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strconv"

	"runnel/rpc/mcp"
)

// read hands out what the server sends until it sends nothing more.
func (c *Client) read() {
	defer close(c.silent)
	lines := lineReader{r: c.opt.Out, max: c.opt.MaxLine}
	for {
		line, err := lines.next()
		if err == errLineTooLong {
			c.tooLong(lines.long.id())
			continue
		}
		if err != nil {
			if err == io.EOF {
				err = errors.New("the server closed its output")
			}
			c.ended(err)
			return
		}
		if c.ctx.Err() != nil { // abandoned
			continue
		}
		c.take(line)
	}
}

// take hands out one line. What is no message is dropped: "The server MUST NOT write anything to its stdout that is not a
// valid MCP message" (basic/transports), and a banner of one that does is no reason to give up.
func (c *Client) take(line []byte) {
	if problem := checkJSON(line); problem != "" {
		c.opt.Log.Debug().Str("problem", problem).Msg("ignoring a line of the server")
		if c.opt.OnGarbage != nil {
			c.opt.OnGarbage(line)
		}
		return
	}
	if c.opt.OnMessage != nil {
		c.opt.OnMessage(line)
	}
	if line[0] == '[' {
		for it := (elements{rest: line[1:]}); it.next(); {
			c.takeMessage(it.value)
		}
		return
	}
	c.takeMessage(line)
}

func (c *Client) takeMessage(object []byte) {
	if object[0] != '{' {
		return
	}
	e, twice := split(object)
	if twice != "" {
		c.opt.Log.Debug().Str("member", twice).Msg("ignoring a message of the server that has a member twice")
		return
	}
	switch kind, problem := e.classify(); kind {
	case response:
		c.response(&e)
	case notification:
		c.notification(unquote(e.method), e.params)
	case request:
		c.request(&e)
	case invalid:
		c.opt.Log.Debug().Str("problem", problem).Msg("ignoring a message of the server")
		// No better answer will come, and without one the request waits for ever. A line of a log may have an id and an error, too.
		if e.method == nil && (e.jsonrpc != nil || e.result != nil || e.err != nil && e.err[0] == '{') {
			c.respond(e.id, Response{Err: Errorf(mcp.CodeInternalError, "the server's answer is no JSON-RPC response: %s", problem)})
		}
	}
}

func (c *Client) response(e *envelope) {
	r := Response{Result: e.result}
	if e.err != nil {
		r.Err = &Error{}
		_ = json.Unmarshal(e.err, r.Err) // what is of the wrong type reads as absent
	}
	c.respond(e.id, r)
}

// respond gives a response to the request with its id. One that answers nothing is ignored.
func (c *Client) respond(rawID []byte, r Response) {
	id, err := strconv.ParseUint(string(rawID), 10, 64)
	c.mu.Lock()
	w := c.waiting[id]
	c.mu.Unlock()
	if err != nil || w == nil {
		c.opt.Log.Debug().Bytes("id", rawID).Msg("ignoring a response to nothing")
		return
	}
	if w.onResponse == nil || !w.onResponse(r) {
		c.forget(id)
	}
	if !w.answered {
		w.answered = true
		r.Result = bytes.Clone(r.Result)
		w.answer <- r
	}
}

// tooLong fails the request whose response is longer than what may be kept.
func (c *Client) tooLong(id []byte) {
	c.opt.Log.Warn().Int("limit", c.opt.MaxLine).Msg("dropping a line of the server's that is too long")
	c.respond(id, Response{Err: Errorf(mcp.CodeInternalError, "the response is too long: the limit is %d bytes a line", c.opt.MaxLine)})
}

func (c *Client) notification(method string, params []byte) {
	if method == "notifications/cancelled" {
		var p mcp.CancelledParams
		if json.Unmarshal(params, &p) == nil && checkID(p.RequestID) == "" {
			c.mu.Lock()
			cancel := c.asked[idKey(p.RequestID)]
			c.mu.Unlock()
			if cancel != nil {
				cancel(errCancelledByServer)
			}
		}
	}
	if c.opt.OnNotification != nil {
		c.opt.OnNotification(method, params)
	}
}

var errCancelledByServer = errors.New("cancelled by the server")

// request answers a request of the server's. Until the server reads the answer, the request counts as being answered.
func (c *Client) request(e *envelope) {
	id, method := bytes.Clone(e.id), unquote(e.method)
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
	case c.asked[key] != nil:
		refused = Errorf(mcp.CodeInvalidRequest, "the id %s is still in flight", id)
	case len(c.asked) >= maxAsked:
		refused = Errorf(mcp.CodeInvalidRequest, "too many requests: the limit is %d at once", maxAsked)
	default:
		c.asked[key] = cancel
	}
	c.mu.Unlock()
	if refused != nil {
		cancel(nil)
		c.answerCheaply(id, refused)
		return
	}
	params := bytes.Clone(e.params)
	c.asking.Go(func() {
		defer cancel(nil)
		result, err := c.opt.OnRequest(ctx, method, params)
		var failure *Error
		if err != nil && !errors.As(err, &failure) {
			failure = Errorf(mcp.CodeInternalError, "%v", err)
		}
		line := c.answer(id, result, failure)
		// "Not send a response for the cancelled request"
		if context.Cause(ctx) == errCancelledByServer || c.write(ctx, func(dst []byte) []byte { c.answered(key); return append(dst, line...) }) != nil {
			c.answered(key)
		}
	})
}

// maxAsked is how many requests of the server may be answered at once. Few servers ask for more than one thing.
const maxAsked = 64

// answered forgets a request of the server's, whose id may come again from now on.
func (c *Client) answered(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.asked, key)
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
	c.w.cheap(c.answer(id, nil, failure))
	c.w.signal()
}
