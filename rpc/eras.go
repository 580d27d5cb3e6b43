package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

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
// first. Requests that arrive before it is done, which few clients send, are answered.
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
		// basic/lifecycle (2025-03-26): "MUST NOT be part of a JSON-RPC batch".
		return Errorf(mcp.CodeInvalidRequest, "initialize cannot be part of a batch")
	case s.negotiated.Version != nil:
		return Errorf(mcp.CodeInvalidRequest, "initialize: the session is open already, with %s",
			s.negotiated.Version.Name)
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

// discoverTTL is how long clients may cache server/discover: its answer changes only with the binary and its
// config.
const discoverTTL = time.Hour

// stateless makes the caller of a request of the stateless era from its _meta alone: "no state should be
// inferred from previous requests" (2026-07-28 basic, "Statelessness").
func (s *session) stateless(meta *mcp.RequestMeta) (Caller, *Error) {
	c := Caller{Era: Stateless}
	name := rawjson.Unquote(meta.ProtocolVersion)
	if name == "" {
		return c, Errorf(mcp.CodeInvalidParams, "params._meta[%q] must be a protocol version",
			mcp.MetaProtocolVersion)
	}
	if c.Version = mcp.LookupVersion(name); c.Version == nil || !c.Version.Stateless {
		message := "unsupported protocol version"
		if c.Version != nil {
			message += " in _meta: " + name + " is spoken in a session, which initialize opens"
		}
		return c, &Error{Code: mcp.CodeUnsupportedVersion, Message: message,
			Data: unsupported{supportedVersions(), name[:min(len(name), maxID)]}}
	}
	if !rawjson.IsObject(meta.ClientCapabilities) {
		return c, Errorf(mcp.CodeInvalidParams, "params._meta[%q] must be an object",
			mcp.MetaClientCapabilities)
	}
	// "If the [logLevel] is not a recognized log level, the server SHOULD reject that request"
	// (server/utilities/logging)
	if meta.LogLevel != nil && !slices.Contains(logLevels, string(meta.LogLevel)) {
		return c, Errorf(mcp.CodeInvalidParams, "params._meta[%q] must be one of %s", mcp.MetaLogLevel,
			strings.Join(logLevels, ", "))
	}
	// Decoding the same client in each request would take longer than the rest of a call.
	if l := &s.last; !bytes.Equal(l.clientInfo, meta.ClientInfo) ||
		!bytes.Equal(l.clientCapabilities, meta.ClientCapabilities) {
		*l = statelessClient{clientInfo: meta.ClientInfo, clientCapabilities: meta.ClientCapabilities}
		// Unmarshal continues after a member of the wrong type, which then reads as absent.
		_ = rawjson.Unmarshal(meta.ClientCapabilities, &l.capabilities)
		_ = rawjson.Unmarshal(meta.ClientInfo, &l.client)
	}
	c.Capabilities, c.Client = s.last.capabilities, s.last.client
	return c, nil
}

// logLevels are the encoded values of logLevel.
var logLevels = []string{`"debug"`, `"info"`, `"notice"`, `"warning"`, `"error"`, `"critical"`, `"alert"`,
	`"emergency"`}

// unsupported is the data of an UnsupportedProtocolVersionError.
type unsupported struct {
	Supported []string `json:"supported"`
	Requested string   `json:"requested"`
}

// supportedVersions are the versions of the stateless era, newest first: "Use one of the versions in its
// advertised supported list. Do not fall back to initialize" (basic/transports/stdio). A version of the
// handshake era is not allowed in _meta, so it is not listed.
func supportedVersions() []string {
	var names []string
	for _, v := range slices.Backward(mcp.Versions) {
		if v.Stateless {
			names = append(names, v.Name)
		}
	}
	return names
}

// discover answers server/discover.
func (s *Server) discover(ctx context.Context, c *Caller, _ json.RawMessage) (any, error) {
	ttl := discoverTTL
	if s.prepare != nil {
		s.prepare(ctx, c)
		ttl = 0 // other servers may change what they can do at any time
	}
	_, instructions := s.introduction(c)
	r := mcp.DiscoverResult{
		SupportedVersions: supportedVersions(),
		Instructions:      instructions,
		Cacheable:         mcp.Cacheable{TTLMs: ttl.Milliseconds(), CacheScope: "public"},
	}
	for _, f := range s.declare {
		f(c, &r.Capabilities)
	}
	return r, nil
}

// dress adds to the result that begins at begin what the stateless era requires: a resultType, and in _meta
// who the server is. It works on the encoded result, so that no handler needs to know. bare: the result has
// neither yet.
func (s *Server) dress(c *Caller, e *encoder, begin int, bare bool) error {
	object := e.buf.Bytes()[begin:]
	if !rawjson.IsObject(object) { // another server may have answered so
		return nil
	}
	typed, meta := false, []byte(nil)
	for it := rawjson.Over(object); !bare && it.Next(); {
		switch string(it.Name) {
		case "_meta":
			meta = bytes.Clone(it.Value)
		case "resultType":
			typed = true
		}
	}
	if meta != nil { // it moves to the end
		others := rawjson.WithMember(object, "_meta", nil)
		e.buf.Truncate(begin)
		e.buf.Write(others)
	}
	if !rawjson.IsObject(meta) {
		meta = []byte("{}")
	}
	e.buf.Truncate(e.buf.Len() - 1) // the brace
	if !typed {
		e.raw("resultType", []byte(`"`+mcp.ResultComplete+`"`))
	}
	e.raw("_meta", bytes.TrimSpace(meta[:len(meta)-1]))
	info, _ := s.introduction(c)
	err := e.member(mcp.MetaServerInfo, info)
	e.buf.WriteString("}}")
	return err
}
