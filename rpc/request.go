package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"

	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

// request dispatches a request.
func (s *session) request(c *call) {
	meta, stateless := requestMeta(c.params)
	switch {
	case stateless: // the stateless era has neither of the two
	case c.method == "ping":
		s.answer(c, nil, nil)
		return
	case c.method == "initialize":
		s.initialize(c)
		return
	}
	who, h, err := s.admit(c.method, &meta, stateless)
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
	switch {
	case method == "notifications/cancelled":
		s.cancelled(m.params)
	case s.srv.others != nil && !s.srv.knows(method):
		caller := s.negotiated
		caller.session, caller.head = s, m.head()
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
		return nil, Errorf(mcp.CodeBusy,
			"too many answers wait to be read: the limit for a batch is %d bytes", maxUnread)
	}
	return &batch{w: w, held: &s.held, open: 1}, nil
}

// refuse answers an invalid message with what is wrong with it.
func (s *session) refuse(m *message, _ []byte) *Error {
	s.reply(m.w, m.batch, m.head(), m.answerID(), nil, m.problem)
	return nil
}

// admit decides the era of a request and finds its handler. The eras meet here (HTTP looks at its headers
// before): "A request carrying modern per-request _meta is served statelessly", any other by the session that
// initialize opened (2026-07-28 basic/versioning, "Backward Compatibility with Initialization-Based
// Versions").
func (s *session) admit(method string, meta *mcp.RequestMeta, stateless bool) (Caller, Handler, *Error) {
	if stateless {
		c, err := s.stateless(meta)
		h := s.srv.handler(Stateless, method)
		if err == nil && h == nil {
			err = Errorf(mcp.CodeMethodNotFound, "method not found: %.100q", method)
		}
		return c, h, err
	}
	h := s.srv.handler(Handshake, method)
	switch {
	case h == nil && s.srv.handler(Stateless, method) != nil:
		// "A request missing any required field is malformed" (2026-07-28 basic, "_meta")
		return s.negotiated, nil, Errorf(mcp.CodeInvalidParams, "%s needs params._meta with %q and %q",
			method, mcp.MetaProtocolVersion, mcp.MetaClientCapabilities)
	case h == nil:
		// This comes before the check for initialize: clients probe for other eras with methods that are
		// unknown here, and rely on this answer.
		return s.negotiated, nil, Errorf(mcp.CodeMethodNotFound, "method not found: %.100q", method)
	case s.negotiated.Version == nil && !s.srv.knows(method):
		return s.negotiated, nil, Errorf(mcp.CodeMethodNotFound, "method not found: %.100q", method)
	case s.negotiated.Version == nil:
		// "The client SHOULD NOT send requests other than pings before the server has responded to the
		// initialize request" (basic/lifecycle).
		return s.negotiated, nil, Errorf(mcp.CodeInvalidRequest, "no session: send initialize first")
	}
	return s.negotiated, h, nil
}

// handler returns the handler of a method in an era, nil if there is none.
func (s *Server) handler(era Era, method string) Handler {
	switch h := s.methods[methodKey{era, method}]; {
	case era == Stateless && method == "server/discover":
		return s.discover
	case h == nil && s.other != nil && !s.knows(method):
		return func(ctx context.Context, c *Caller, params json.RawMessage) (any, error) {
			return s.other(ctx, c, method, params)
		}
	default:
		return h
	}
}

// requestMeta reads params._meta, and reports whether the request is of the stateless era: only such a
// request has its fields there. The result points into params. Unusable members read as absent. It decodes
// only what is needed, since a client of the stateless era sends a long _meta with each request.
func requestMeta(params []byte) (meta mcp.RequestMeta, stateless bool) {
	for it := rawjson.Over(rawjson.Member(params, "_meta")); it.Next(); {
		switch string(it.Name) {
		case "progressToken":
			// "progress tokens MUST be a string or integer value" (basic/utilities/progress).
			if checkID(it.Value) == "" {
				meta.ProgressToken = it.Value
			}
		case "partialResults":
			meta.PartialResults = string(it.Value) == "true"
		case "partialResultToken":
			if checkID(it.Value) == "" {
				meta.PartialResultToken = it.Value
			}
		case mcp.MetaVariables:
			meta.Variables = it.Value
		case mcp.MetaProtocolVersion:
			meta.ProtocolVersion = it.Value
		case mcp.MetaClientInfo:
			meta.ClientInfo = it.Value
		case mcp.MetaClientCapabilities:
			meta.ClientCapabilities = it.Value
		case mcp.MetaLogLevel:
			meta.LogLevel = it.Value
		}
	}
	return meta, meta.ProtocolVersion != nil || meta.ClientCapabilities != nil
}

// ReadParam reads the params, or one member of them, and returns an error that names the value of a wrong
// type. Use it instead of encoding/json where the client should learn of its mistake.
func ReadParam(name string, value []byte, to any) error {
	err := rawjson.Unmarshal(value, to)
	if err == nil {
		return nil
	}
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
		return Errorf(mcp.CodeInvalidParams, "%s cannot be read", name)
	}
	if wrong.Field != "" {
		name += "." + wrong.Field
	}
	return Errorf(mcp.CodeInvalidParams, "%s: a JSON %s does not belong there", name, wrong.Value)
}

// ErrCursor refuses an unknown cursor. "Invalid cursors SHOULD result in an error with code -32602"
// (server/utilities/pagination, "Error Handling").
var ErrCursor = Errorf(mcp.CodeInvalidParams,
	"invalid cursor: use the nextCursor of the page before, or none")

// Cursor returns the cursor of the page that a request asks for, "" for the first
// (server/utilities/pagination). Its error is an *[Error]. Call it first in the handler of any method that
// lists something.
func Cursor(params json.RawMessage) (string, error) {
	cursor := rawjson.Member(params, "cursor")
	if rawjson.IsArray(params) || cursor != nil && cursor[0] != '"' && string(cursor) != "null" {
		return "", Errorf(mcp.CodeInvalidParams, "params.cursor must be a string")
	}
	return rawjson.Unquote(cursor), nil
}
