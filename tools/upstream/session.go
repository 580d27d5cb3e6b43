package upstream

import (
	"context"
	"encoding/json"
	"slices"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tools"
	"runnel/tools/remote"
)

// Meet takes note of who asks first: what that client can do is what upstreams are told that they may ask for. It reports whether there
// are upstreams.
func (s *Set) Meet(c *rpc.Caller) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client == nil {
		s.client = c
	}
	return len(s.servers) > 0
}

// open takes note of the session: it takes what upstreams say and ask outside of calls.
func (s *Set) open(c *rpc.Caller) (any bool) {
	any = s.Meet(c)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.session = c
	return any
}

func (s *Set) openSession() *rpc.Caller {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.session
}

// clientCapabilities are what upstreams are told of runnel: what it does itself, and what the client does. One of the stateless era says
// that anew with each request, so that calls may ask for more than the first request allows.
func (s *Set) clientCapabilities() mcp.ClientCapabilities {
	s.mu.RLock()
	c := s.client
	s.mu.RUnlock()
	if c == nil {
		return remote.Capabilities(true)
	}
	caps := remote.Capabilities(c.Era == rpc.Stateless || c.Version.Elicitation && c.Capabilities.AsksByForm())
	caps.Roots, caps.Sampling = c.Capabilities.Roots, c.Capabilities.Sampling
	if e := c.Capabilities.Elicitation; c.Era == rpc.Handshake && c.Version.Elicitation && e != nil && e.URL != nil {
		caps.Elicitation = e
	}
	return caps
}

// tellSession passes a notification on, if there is a session. It is dropped where very much is unread.
func (s *Set) tellSession(method string, params json.RawMessage) {
	if c := s.openSession(); c != nil {
		_ = c.TryNotify(method, params) // fails only when nobody is there to read it
	}
}

// logLevels are the levels of log messages, the least severe first.
var logLevels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// passMessage passes on a log message of an upstream: to the session, from the level on that it has asked for, or to the client of
// the call, if it asked for log messages with it. c is nil if the message is of no call, or nobody knows of which.
func (s *Set) passMessage(c *call, params json.RawMessage) {
	s.mu.RLock()
	to, least := s.session, s.level
	s.mu.RUnlock()
	if c != nil && c.caller != nil && c.caller.Era == rpc.Stateless {
		to, least = c.caller, ""
		if _ = json.Unmarshal(to.Meta.LogLevel, &least); least == "" {
			return // "the server MUST NOT send notifications/message" then (2026-07-28 server/utilities/logging)
		}
	}
	if to != nil && slices.Index(logLevels, rawjson.StringMember(params, "level")) >= slices.Index(logLevels, least) {
		_ = to.TryNotify("notifications/message", forwarded(params))
	}
}

// setLevel answers logging/setLevel: for all upstreams, also those that start later.
func (s *Set) setLevel(ctx context.Context, _ *rpc.Caller, params json.RawMessage) (any, error) {
	level := rawjson.StringMember(params, "level")
	if !slices.Contains(logLevels, level) {
		return nil, rpc.Errorf(mcp.CodeInvalidParams, "params.level must be one of %v", logLevels)
	}
	s.mu.Lock()
	s.level = level
	list := s.servers
	s.mu.Unlock()
	for _, u := range list {
		u.mu.Lock()
		l := u.link
		u.mu.Unlock()
		if l != nil {
			l.setLevel(ctx)
		}
	}
	return struct{}{}, nil
}

// setLevel tells the server from which level on it shall send log messages, if anybody has said so.
func (l *link) setLevel(ctx context.Context) {
	r := l.u.set
	r.mu.RLock()
	level := r.level
	r.mu.RUnlock()
	if level == "" || l.client.Era() == rpc.Stateless || l.client.Capabilities().Logging == nil {
		return
	}
	if err := l.client.Call(ctx, "logging/setLevel", map[string]string{"level": level}, nil); err != nil {
		l.u.log.Debug().Err(err).Msg("upstream does not take the level of log messages")
	}
}

// rootsChanged tells the upstreams that the client's roots have changed.
func (s *Set) rootsChanged() {
	s.mu.RLock()
	list := s.servers
	s.mu.RUnlock()
	for _, u := range list {
		u.mu.Lock()
		l := u.link
		u.mu.Unlock()
		if l != nil && l.client.Era() == rpc.Handshake && u.capabilities.Roots != nil {
			_ = l.client.Notify("notifications/roots/list_changed", nil) // fails only when the server is gone
		}
	}
}

// askClient puts a request of a server's to the client: to that of the call which it belongs to, if that can be told, else to the session.
func (l *link) askClient(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	params = forwarded(params)
	if c := l.only(params); c != nil && c.caller != nil {
		return c.in.Request(ctx, method, params)
	}
	if c := l.u.set.openSession(); c != nil {
		return tools.Request(ctx, c, method, params)
	}
	return nil, rpc.Errorf(mcp.CodeInternalError, "%s: no call is under way: there is nobody to ask", method)
}
