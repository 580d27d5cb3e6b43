package rpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strconv"

	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

// read hands out what the server sends until it sends nothing more.
//
// A panic of who gets what comes ends the connection, and with it the calls that wait for something on it.
func (c *Client) read() {
	defer close(c.silent)
	defer func() {
		if p := recover(); p != nil {
			c.opt.Log.Error().Str("panic", fmt.Sprint(p)).Bytes("stack", debug.Stack()).Msg("taking a message of the server panicked")
			c.ended(errInternal)
		}
	}()
	lines := lineReader{r: c.opt.Out, max: c.opt.MaxLine}
	for {
		line, err := lines.next()
		if err == errLineTooLong {
			c.tooLong(lines.longID())
			continue
		}
		if err != nil {
			switch {
			case err == io.EOF:
				err = errors.New("the server closed its output")
			case errors.Is(err, errLeftBehind):
				err = errLeftBehind
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
	if _, ok := rawjson.Scan(line); !ok {
		problem := parseError(line)
		c.opt.Log.Debug().Str("problem", problem).Msg("ignoring a line of the server")
		if c.opt.OnGarbage != nil {
			c.opt.OnGarbage(line)
		}
		if line[0] == '{' && json.Valid(line) { // only some bytes of a text are wrong, that some program printed
			e, _ := split(line)
			c.brokenAnswer(&e, problem)
		}
		return
	}
	if c.opt.OnMessage != nil {
		c.opt.OnMessage(line)
	}
	if line[0] == '[' {
		for it := rawjson.ElementsOf(line); it.Next(); {
			c.takeMessage(it.Value)
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
		c.brokenAnswer(&e, "it has \""+twice+"\" twice")
		return
	}
	switch kind, problem := e.classify(); kind {
	case response:
		c.response(&e)
	case notification:
		c.notification(rawjson.Unquote(e.method), e.params)
	case request:
		c.request(&e)
	case invalid:
		c.opt.Log.Debug().Str("problem", problem).Msg("ignoring a message of the server")
		c.brokenAnswer(&e, problem)
	}
}

// brokenAnswer fails the request that a message which cannot be used seems to answer: no better answer will come, and without one
// the request waits for ever. A line of a log may have an id and an error, too.
func (c *Client) brokenAnswer(e *envelope, problem string) {
	if e.method == nil && (e.jsonrpc != nil || e.result != nil || bytes.HasPrefix(e.err, []byte("{"))) {
		c.respond(e.id, Response{Err: Errorf(mcp.CodeInternalError, "the server's answer is no JSON-RPC response: %s", problem)})
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
		if rawjson.Unmarshal(params, &p) == nil && checkID(p.RequestID) == "" {
			c.mu.Lock()
			cancel := c.answering[idKey(p.RequestID)]
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
