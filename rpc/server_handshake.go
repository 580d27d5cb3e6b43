package rpc

import (
	"context"

	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

// admit decides the era of a request and finds its handler. It is where the eras meet (HTTP looks at its headers before): "A request
// carrying modern per-request _meta is served statelessly", any other one by the session that initialize
// opened (2026-07-28 basic/versioning, "Backward Compatibility with Initialization-Based Versions").
func (s *session) admit(method string, meta *mcp.RequestMeta) (Caller, Handler, *Error) {
	if isStateless(meta) {
		c, err := s.stateless(meta)
		h := s.srv.stateless(method)
		if err == nil && h == nil {
			err = Errorf(mcp.CodeMethodNotFound, "method not found: %.100q", method)
		}
		return c, h, err
	}
	h := s.srv.methods[methodKey{Handshake, method}]
	switch {
	case h == nil && s.srv.stateless(method) != nil:
		// "A request missing any required field is malformed" (2026-07-28 basic, "_meta")
		return s.agreed, nil, Errorf(mcp.CodeInvalidParams, "%s needs params._meta with %q and %q", method, mcp.MetaProtocolVersion, mcp.MetaClientCapabilities)
	case h == nil:
		// Before initialize too: clients probe for other eras with methods that are unknown here, and take this for an answer.
		return s.agreed, nil, Errorf(mcp.CodeMethodNotFound, "method not found: %.100q", method)
	case s.agreed.Version == nil:
		// "The client SHOULD NOT send requests other than pings before the server has responded to the initialize request" (basic/lifecycle).
		return s.agreed, nil, Errorf(mcp.CodeInvalidRequest, "no session: send initialize first")
	}
	return s.agreed, h, nil
}

// stateless is the handler of a method in the stateless era, nil if there is none.
func (s *Server) stateless(method string) Handler {
	if method == "server/discover" {
		return s.discover
	}
	return s.methods[methodKey{Stateless, method}]
}

// belongTo says who has sent a request.
func (s *session) belongTo(c *call, who Caller) *Caller {
	who.session, who.head, who.call = s, c.head, c
	if who.Era == Stateless {
		c.dress = func(e *encoder, begin int) error { return s.srv.dress(&who, e, begin) }
	}
	return &who
}

// initialize answers the request that opens the session. When the server is to be prepared, that comes first; what the client sends
// meanwhile, which few do before they have the answer, is answered.
func (s *session) initialize(c *call) {
	if err := s.open(c); err != nil {
		s.answer(c, nil, err)
		return
	}
	caller := s.belongTo(c, s.agreed)
	opened := func() {
		standing := *caller
		standing.call = nil
		for _, f := range s.srv.onOpen {
			f(&standing)
		}
	}
	if s.srv.prepare == nil || c.admit() != nil {
		s.answer(c, s.srv.welcome(caller), nil)
		opened()
		return
	}
	c.start(func(ctx context.Context) (any, error) {
		s.srv.prepare(ctx, caller)
		return After{Result: s.srv.welcome(caller), Do: opened}, nil
	})
}

// open opens the session (basic/lifecycle, "Initialization").
func (s *session) open(c *call) *Error {
	switch {
	case c.batch != nil:
		return Errorf(mcp.CodeInvalidRequest, "initialize cannot be part of a batch") // basic/lifecycle (2025-03-26): "MUST NOT be part of a JSON-RPC batch"
	case s.agreed.Version != nil:
		return Errorf(mcp.CodeInvalidRequest, "initialize: the session is open already, with %s", s.agreed.Version.Name)
	}
	var p mcp.InitializeParams
	// Unmarshal goes on after a member of the wrong type, which then reads as absent: a capability unknown here is not a reason to refuse.
	_ = rawjson.Unmarshal(c.params, &p)
	if p.ProtocolVersion == "" {
		return Errorf(mcp.CodeInvalidParams, `initialize: "protocolVersion" is missing`)
	}
	v := mcp.LookupVersion(p.ProtocolVersion)
	if v == nil || v.Stateless {
		v = mcp.NewestHandshake()
	}
	s.agreed = Caller{Era: Handshake, Version: v, Client: p.ClientInfo, Capabilities: p.Capabilities}
	s.log.Info().Str("client", p.ClientInfo.Name).Str("clientVersion", p.ClientInfo.Version).
		Str("protocol", v.Name).Str("asked", p.ProtocolVersion).Msg("session opened")
	return nil
}

// welcome is the answer to initialize.
func (s *Server) welcome(c *Caller) *mcp.InitializeResult {
	r := &mcp.InitializeResult{ProtocolVersion: c.Version.Name}
	r.ServerInfo, r.Instructions = s.introduction(c)
	for _, f := range s.declare {
		f(c.Version, &r.Capabilities)
	}
	return r
}

// requestMeta reads params._meta, into which the result points from then on. What is unusable reads as absent. A client of the stateless era
// sends a long one with each request.
func requestMeta(params []byte) *mcp.RequestMeta {
	value := rawjson.Member(params, "_meta")
	if !rawjson.IsObject(value) {
		return &noMeta
	}
	meta := &mcp.RequestMeta{}
	for it := rawjson.MembersOf(value); it.Next(); {
		switch string(it.Name) {
		case "progressToken":
			meta.ProgressToken = it.Value
		case "partialResults":
			meta.PartialResults = string(it.Value) == "true"
		case "partialResultToken":
			meta.PartialResultToken = it.Value
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
	if checkID(meta.ProgressToken) != "" { // "progress tokens MUST be a string or integer value" (basic/utilities/progress)
		meta.ProgressToken = nil
	}
	if checkID(meta.PartialResultToken) != "" {
		meta.PartialResultToken = nil
	}
	return meta
}

// noMeta is read only.
var noMeta mcp.RequestMeta
