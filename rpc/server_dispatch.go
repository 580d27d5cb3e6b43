package rpc

import (
	"bytes"
	"context"
	"slices"

	"github.com/sourcegraph/jsonrpc2"

	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

// Handle is called by the Conn, on the goroutine that reads, with a stand-in; see stream.
func (s *session) Handle(context.Context, *jsonrpc2.Conn, *jsonrpc2.Request) {
	m := &s.stream.current
	if m.kind == request {
		s.requested(m)
		return
	}
	method := rawjson.Unquote(m.part.method)
	if method == "notifications/cancelled" {
		s.cancelled(m.part.params)
	} else if f := s.srv.notices[method]; f != nil && s.peer.Version != nil { // others are ignored
		peer := s.peer
		peer.head = m.part.head()
		f(&peer, bytes.Clone(m.part.params))
	}
}

// requested dispatches a request.
func (s *session) requested(m *message) {
	e := &m.part
	key := idKey(e.id)
	if s.calls.has(key) {
		s.reply(m.batch, e.head(), e.id, nil, Errorf(mcp.CodeInvalidRequest, "the id %.100s is still in flight", e.id))
		return
	}
	method := rawjson.Unquote(e.method)
	meta := requestMeta(e.params)
	switch {
	case isStateless(meta): // which has neither
	case method == "ping":
		s.reply(m.batch, e.head(), e.id, nil, nil)
		return
	case method == "initialize":
		var result any
		err := Errorf(mcp.CodeInvalidRequest, "initialize cannot be part of a batch") // basic/lifecycle (2025-03-26): "MUST NOT be part of a JSON-RPC batch"
		if m.batch == nil {
			result, err = s.initialize(e.params)
		}
		peer := s.peer
		peer.head = slices.Clone(e.head())
		opened := func() {
			for _, f := range s.srv.onOpen {
				f(&peer)
			}
		}
		if err == nil && s.welcomeLater(m, key, opened) {
			return
		}
		s.reply(m.batch, e.head(), e.id, result, err)
		if err == nil {
			opened()
		}
		return
	}
	caller, h, err := s.admit(method, meta)
	if err == nil {
		caller.Meta = *meta // copies: nothing of it points into the line
		c := s.newCall(m, key, method, caller)
		if err = s.calls.admit(c); err == nil {
			if c.batch == nil {
				s.start(job{c, h})
				return
			}
			c.batch.join()
			c.batch.calls = append(c.batch.calls, job{c, h})
			return
		}
	}
	s.reply(m.batch, e.head(), e.id, nil, err)
}

// newCall copies out of the line what a request needs.
func (s *session) newCall(m *message, key, method string, caller Caller) *call {
	e := &m.part
	raw := make([]byte, 0, len(e.id)+len(e.params))
	raw = append(append(raw, e.id...), e.params...)
	c := &call{caller: caller, method: method, batch: m.batch, session: s, key: key}
	c.caller.id, c.params = raw[:len(e.id):len(e.id)], raw[len(e.id):]
	c.caller.head = e.head()
	c.caller.call = c
	if e.params == nil {
		c.params = nil
	}
	c.ctx.Parent = s.ctx
	return c
}

// reply answers a message that took no slot in flight. It is called by the reader: the answer goes out before it waits for more.
func (s *session) reply(b *batch, head, id []byte, result any, failure *Error) {
	e := newEncoder()
	defer e.free()
	if err := e.response(head, id, result, failure); err != nil {
		s.log.Error().Err(err).Msg("a result cannot be encoded")
	}
	if b != nil {
		b.add(e.buf.Bytes(), 0, After{})
		return
	}
	s.w.try(e.line())
}
