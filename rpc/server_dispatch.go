package rpc

import (
	"bytes"
	"context"

	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

// request dispatches a request.
func (s *session) request(c *call) {
	meta := requestMeta(c.params)
	switch {
	case isStateless(&meta): // the stateless era has neither of the two
	case c.method == "ping":
		s.answer(c, nil, nil)
		return
	case c.method == "initialize":
		s.initialize(c)
		return
	}
	who, h, err := s.admit(c.method, &meta)
	if err == nil {
		c.waits = mcp.Waits(c.method)
		err = s.incoming.admit(c)
	}
	if err != nil {
		s.answer(c, nil, err)
		return
	}
	if who.Era == Handshake {
		meta.ClientInfo, meta.ClientCapabilities = who.Meta.ClientInfo, who.Meta.ClientCapabilities
	}
	who.Meta = meta
	caller := s.callerOf(c, who)
	c.start(func(ctx context.Context) (any, error) { return h(ctx, caller, c.params) })
}

// notification handles a cancellation, and passes other notifications to their handlers.
func (s *session) notification(m *message) {
	method := rawjson.Unquote(m.method)
	caller := s.negotiated
	caller.session, caller.head = s, m.head()
	f := s.srv.notices[method]
	switch {
	case method == "notifications/cancelled":
		s.cancelled(m.params)
	case f != nil && caller.Version != nil:
		f(&caller, bytes.Clone(m.params))
	case f == nil && s.srv.others != nil && !s.srv.knows(method):
		s.srv.others(&caller, method, bytes.Clone(m.params))
	}
}

// array checks a batch before the peer reads its messages.
func (s *session) array(line []byte, w *writer) (*batch, *Error) {
	n := 0
	for it := rawjson.Over(line); n <= maxBatch && it.Next(); {
		n++
	}
	switch v := s.negotiated.Version; {
	case v == nil || !v.Batches:
		return nil, Errorf(mcp.CodeInvalidRequest, "batches are not served in this session")
	case n == 0:
		return nil, Errorf(mcp.CodeInvalidRequest, "empty batch")
	case n > maxBatch:
		return nil, Errorf(mcp.CodeInvalidRequest, "batch too long: the limit is %d messages", maxBatch)
	case s.held.Load()+int64(w.unread()) > maxUnread:
		return nil, Errorf(mcp.CodeBusy, "too many answers wait to be read: the limit for a batch is %d bytes", maxUnread)
	}
	return &batch{w: w, held: &s.held, open: 1}, nil
}

// refuse answers an invalid message with what is wrong with it.
func (s *session) refuse(m *message, _ []byte) *Error {
	s.reply(m.w, m.batch, m.head(), m.answerID(), nil, m.problem)
	return nil
}
