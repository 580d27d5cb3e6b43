package rpc

import (
	"context"
	"encoding/json"

	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

// admit decides the era of a request and finds its handler. The eras meet here (HTTP looks at its headers
// before): "A request carrying modern per-request _meta is served statelessly", any other by the session that
// initialize opened (2026-07-28 basic/versioning, "Backward Compatibility with Initialization-Based
// Versions").
func (s *session) admit(method string, meta *mcp.RequestMeta) (Caller, Handler, *Error) {
	if isStateless(meta) {
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
		return s.negotiated, nil, Errorf(mcp.CodeInvalidParams, "%s needs params._meta with %q and %q", method, mcp.MetaProtocolVersion, mcp.MetaClientCapabilities)
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

// isStateless reports whether a request is of the stateless era: only such requests have its fields in _meta.
func isStateless(meta *mcp.RequestMeta) bool {
	return meta.ProtocolVersion != nil || meta.ClientCapabilities != nil
}

// requestMeta reads params._meta; the result points into params. Unusable members read as absent. It decodes
// only what is needed, since a client of the stateless era sends a long _meta with each request.
func requestMeta(params []byte) (meta mcp.RequestMeta) {
	for it := rawjson.Over(rawjson.Member(params, "_meta")); it.Next(); {
		switch string(it.Name) {
		case "progressToken":
			if checkID(it.Value) == "" { // "progress tokens MUST be a string or integer value" (basic/utilities/progress)
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
	return meta
}
