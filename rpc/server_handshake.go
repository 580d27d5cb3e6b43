package rpc

import (
	"context"

	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

// callerOf makes the Caller of a request.
func (s *session) callerOf(c *call, who Caller) *Caller {
	who.session = s
	who.head = c.head
	who.call = c
	if who.Era == Stateless {
		c.dress = func(e *encoder, begin int, bare bool) error { return s.srv.dress(&who, e, begin, bare) }
	}
	return &who
}

// initialize answers the request that opens the session. If the server has something to prepare, that comes
// first; requests that arrive meanwhile, which few clients send, are answered.
func (s *session) initialize(c *call) {
	if err := s.open(c); err != nil {
		s.answer(c, nil, err)
		return
	}
	caller := s.callerOf(c, s.negotiated)
	opened := func() {
		standing := *caller
		standing.call = nil
		for _, f := range s.srv.onOpen {
			f(&standing)
		}
	}
	if s.srv.prepare == nil || s.incoming.admit(c) != nil {
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
	case s.negotiated.Version != nil:
		return Errorf(mcp.CodeInvalidRequest, "initialize: the session is open already, with %s", s.negotiated.Version.Name)
	}
	var p mcp.InitializeParams
	// Unmarshal continues after a member of the wrong type, which then reads as absent: an unknown kind of
	// capability is not a reason to refuse.
	_ = rawjson.Unmarshal(c.params, &p)
	if p.ProtocolVersion == "" {
		return Errorf(mcp.CodeInvalidParams, `initialize: "protocolVersion" is missing`)
	}
	v := mcp.LookupVersion(p.ProtocolVersion)
	if v == nil || v.Stateless {
		v = mcp.NewestHandshake()
	}
	s.negotiated = Caller{Era: Handshake, Version: v, Client: p.ClientInfo, Capabilities: p.Capabilities}
	s.negotiated.Meta.ClientInfo = rawjson.Member(c.params, "clientInfo")
	s.negotiated.Meta.ClientCapabilities = rawjson.Member(c.params, "capabilities")
	s.log.Info().Str("client", p.ClientInfo.Name).Str("clientVersion", p.ClientInfo.Version).
		Str("protocol", v.Name).Str("asked", p.ProtocolVersion).Msg("session opened")
	return nil
}

// welcome returns the answer to initialize.
func (s *Server) welcome(c *Caller) *mcp.InitializeResult {
	r := &mcp.InitializeResult{ProtocolVersion: c.Version.Name}
	r.ServerInfo, r.Instructions = s.introduction(c)
	for _, f := range s.declare {
		f(c, &r.Capabilities)
	}
	return r
}
