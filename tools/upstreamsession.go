package tools

import (
	"context"
	"encoding/json"
	"slices"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tools/remote"
)

// meet takes note of who asks first: what that client can do is what upstreams are told that they may ask for.
func (r *Registry) meet(c *rpc.Caller) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.client == nil {
		r.client = c
	}
}

// open takes note of the session: it takes what upstreams say and ask outside of calls.
func (r *Registry) open(c *rpc.Caller) {
	r.meet(c)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.session = c
}

func (r *Registry) openSession() *rpc.Caller {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.session
}

// clientCapabilities are what upstreams are told of runnel: what it does itself, and what the client does. One of the stateless era says
// that anew with each request, so that calls may ask for more than the first request allows.
func (r *Registry) clientCapabilities() mcp.ClientCapabilities {
	r.mu.RLock()
	c := r.client
	r.mu.RUnlock()
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
func (r *Registry) tellSession(method string, params json.RawMessage) {
	if c := r.openSession(); c != nil {
		_ = c.TryNotify(method, params) // fails only when nobody is there to read it
	}
}

// logLevels are the levels of log messages, the least severe first.
var logLevels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// passMessage passes on a log message of an upstream: to the session, from the level on that it has asked for, or to the client of
// the call, if it asked for log messages with it. c is nil if the message is of no call, or nobody knows of which.
func (r *Registry) passMessage(c *upstreamCall, params json.RawMessage) {
	r.mu.RLock()
	to, least := r.session, r.level
	r.mu.RUnlock()
	if c != nil && c.in.caller != nil && c.in.caller.Era == rpc.Stateless {
		to, least = c.in.caller, ""
		if _ = json.Unmarshal(to.Meta.LogLevel, &least); least == "" {
			return // "the server MUST NOT send notifications/message" then (2026-07-28 server/utilities/logging)
		}
	}
	if to != nil && slices.Index(logLevels, rawjson.StringMember(params, "level")) >= slices.Index(logLevels, least) {
		_ = to.TryNotify("notifications/message", forwarded(params))
	}
}

// setLevel answers logging/setLevel: for all upstreams, also those that start later.
func (s *service) setLevel(ctx context.Context, _ *rpc.Caller, params json.RawMessage) (any, error) {
	level := rawjson.StringMember(params, "level")
	if !slices.Contains(logLevels, level) {
		return nil, rpc.Errorf(mcp.CodeInvalidParams, "params.level must be one of %v", logLevels)
	}
	r := s.registry
	r.mu.Lock()
	r.level = level
	list := r.upstreams
	r.mu.Unlock()
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
	r := l.u.registry
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
func (r *Registry) rootsChanged() {
	r.mu.RLock()
	list := r.upstreams
	r.mu.RUnlock()
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
	if c := l.only(params); c != nil && c.in.caller != nil {
		return c.askOther(ctx, method, params)
	}
	if c := l.u.registry.openSession(); c != nil {
		return askSession(ctx, c, method, params)
	}
	return nil, rpc.Errorf(mcp.CodeInternalError, "%s: no call is under way: there is nobody to ask", method)
}

// askOther puts a request to the client of a call. One of the stateless era finds it in the answer to the call, or in its task.
func (c *upstreamCall) askOther(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	caller := c.in.caller
	if caller.Era == rpc.Handshake {
		return askSession(ctx, caller, method, params)
	}
	if c.in.askOther == nil {
		return nil, errCannotDo(method)
	}
	return c.in.askOther(ctx, method, forwarded(params))
}

// askSession puts a request of a server's to a client of the handshake era.
func askSession(ctx context.Context, c *rpc.Caller, method string, params json.RawMessage) (answer json.RawMessage, err error) {
	if !canDo(c, method, params) {
		return nil, errCannotDo(method)
	}
	if len(params) > maxAsked {
		return nil, rpc.Errorf(mcp.CodeInvalidParams, "%s: the params have %d bytes: the limit is %d", method, len(params), maxAsked)
	}
	err = c.Request(ctx, method, forwarded(params), &answer)
	return answer, err
}

// maxAsked is how long a request of a server's to the client may be, in bytes: its line stays below the 1 MiB that clients read.
const maxAsked = mcp.MaxContent

// canDo reports whether a client takes a request of a server's.
func canDo(c *rpc.Caller, method string, params json.RawMessage) bool {
	switch method {
	case "sampling/createMessage":
		return c.Capabilities.Sampling != nil
	case "roots/list":
		return c.Capabilities.Roots != nil
	case "elicitation/create":
		e := c.Capabilities.Elicitation
		if rawjson.StringMember(params, "mode") == "url" {
			return e != nil && e.URL != nil
		}
		return c.Version.Elicitation && c.Capabilities.AsksByForm()
	}
	return false
}

func errCannotDo(method string) *rpc.Error {
	return rpc.Errorf(mcp.CodeMethodNotFound, "%s: the client does not support it", method)
}
