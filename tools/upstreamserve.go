package tools

import (
	"context"
	"encoding/json"
	"strings"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

// Everything that servers have beside tools is passed on as it is: a request goes to the server whose prompt, resource or template it names,
// and its answer comes back. Nothing of it is a task.
//
//	request                                  goes to
//	prompts/get, completion/complete         the upstream that lists the prompt; its prefix is taken off
//	resources/read, subscribe, unsubscribe,  the upstream that lists the URI, else the one whose template fits best, else each that has
//	completion/complete of a template        resources, in turn
//	logging/setLevel                         every upstream that logs
//
//	from the server                          goes to
//	notifications/message                    the session; the client of the call, if it asked for log messages with it (2026-07-28)
//	notifications/resources/updated          who subscribed
//	list_changed                             all who listen, when the lists have been read again, at most once a second
//	elicitation, sampling, roots             the client of the call; outside of calls the session
//
// These cannot be passed: outside of a tool call, questions to a client of 2026-07-28, to which a server writes no requests; progress of
// other requests than calls; experimental capabilities and extensions; elicitation/create with URLs to a call of 2026-07-28.

// serveUpstreams adds the methods that only upstreams have something for.
func (s *service) serveUpstreams(srv *rpc.Server) {
	r := s.registry
	srv.Declare(func(_ *mcp.Version, caps *mcp.ServerCapabilities) { r.declare(caps) })
	if s.o.Wraps {
		srv.Prepare(func(ctx context.Context, c *rpc.Caller) {
			r.meet(c)
			r.recall()
			r.needFresh(ctx, func(u *Upstream) bool { return r.catalogOf(u) == nil })
		})
	}
	srv.Introduce(func(c *rpc.Caller, info mcp.Implementation, instructions string) (mcp.Implementation, string) {
		r.meet(c)
		return r.introduce(info, instructions, s.o.Wraps)
	})
	srv.OnSession(func(c *rpc.Caller) {
		r.open(c)
		if !r.hasUpstreams() {
			return // nothing was declared that could change, be there upstreams later
		}
		for method, changes := range map[string]*rpc.Broadcast{"notifications/prompts/list_changed": &r.promptChanges, "notifications/resources/list_changed": &r.resourceChanges} {
			changed, stop := changes.Watch()
			s.runner.Go(func(ctx context.Context) {
				defer stop()
				tellChanges(ctx, changed, func() error { return c.NotifyWait(ctx, method, nil) })
			})
		}
	})
	srv.HandleNotification("notifications/roots/list_changed", func(*rpc.Caller, json.RawMessage) { r.rootsChanged() })
	for _, era := range []rpc.Era{rpc.Handshake, rpc.Stateless} {
		s.handleBehind(srv, era, "prompts/list", s.listPrompts)
		s.handleBehind(srv, era, "prompts/get", s.getPrompt)
		s.handleBehind(srv, era, "completion/complete", s.complete)
	}
	s.handleBehind(srv, rpc.Handshake, "logging/setLevel", s.setLevel)
}

// handleBehind registers the handler of a method that runnel does not have without upstreams.
func (s *service) handleBehind(srv *rpc.Server, era rpc.Era, method string, h rpc.Handler) {
	srv.Handle(era, method, func(ctx context.Context, c *rpc.Caller, params json.RawMessage) (any, error) {
		if !s.registry.hasUpstreams() {
			return nil, rpc.Errorf(mcp.CodeMethodNotFound, "method not found: %q", method)
		}
		s.registry.meet(c)
		return h(ctx, c, params)
	})
}

func (r *Registry) hasUpstreams() bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return len(r.upstreams) > 0
}

// catalogOf is what an upstream has, nil if that is not known.
func (r *Registry) catalogOf(u *Upstream) *catalog {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return u.catalog
}

// declare adds what the upstreams can do, and what one may be able to that has not said so yet.
func (r *Registry) declare(caps *mcp.ServerCapabilities) {
	r.recall()
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, u := range r.upstreams {
		unknown := u.catalog == nil && !u.told
		var has mcp.ServerCapabilities
		if u.catalog != nil {
			has = u.catalog.Capabilities
		}
		if unknown || has.Prompts != nil {
			caps.Prompts = &mcp.PromptsCapability{ListChanged: true}
		}
		if unknown || has.Completions != nil {
			caps.Completions = &mcp.Present{}
		}
		if unknown || has.Logging != nil {
			caps.Logging = &mcp.Present{}
		}
		if caps.Resources != nil {
			caps.Resources.ListChanged = true
		}
	}
}

// introduce says who the server is: the one that is wrapped, where it is known. Instructions are those of all.
func (r *Registry) introduce(info mcp.Implementation, instructions string, wraps bool) (mcp.Implementation, string) {
	r.recall()
	r.mu.RLock()
	defer r.mu.RUnlock()
	var parts []string
	if instructions != "" {
		parts = append(parts, instructions)
	}
	for _, u := range r.upstreams {
		if u.catalog == nil {
			continue
		}
		if wraps && u.name == WrappedName && u.catalog.Server.Name != "" {
			info = u.catalog.Server
		}
		switch text := u.catalog.Instructions; {
		case text == "":
		case wraps && u.name == WrappedName:
			parts = append(parts, text)
		default:
			parts = append(parts, u.title()+":\n"+text)
		}
	}
	return info, strings.Join(parts, "\n\n")
}

// title names an upstream to a model.
func (u *Upstream) title() string {
	if u.config.Prefix == "" {
		return u.name
	}
	return u.name + " (tools and prompts whose names begin with " + u.config.Prefix + ")"
}

func (s *service) listPrompts(ctx context.Context, c *rpc.Caller, params json.RawMessage) (any, error) {
	cursor, err := rpc.Cursor(params)
	if err != nil {
		return nil, err
	}
	shown, ok := readShown(cursor)
	if cursor != "" && !ok {
		return nil, errCursor
	}
	list := s.lists(ctx).prompts
	var result struct {
		Prompts    []json.RawMessage `json:"prompts"`
		NextCursor string            `json:"nextCursor,omitempty"`
		*mcp.Cacheable
	}
	result.Prompts, result.NextCursor = entryPage(c.Version, list, shown, listPage)
	if c.Era == rpc.Stateless {
		result.Cacheable = s.cacheable()
	}
	return result, nil
}

// lists are those of all upstreams, which start for them.
func (s *service) lists(ctx context.Context) lists {
	r := s.registry
	r.need(ctx)
	r.shown.Store(true)
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.lists
}

// cacheable are the hints for a list of the upstreams'.
func (s *service) cacheable() *mcp.Cacheable {
	ttl := listTTL
	if !s.registry.whole() {
		ttl = 0
	}
	return &mcp.Cacheable{TTLMs: ttl.Milliseconds(), CacheScope: "private"}
}

// prompt finds the upstream that has a prompt, and the name that it has there.
func (s *service) prompt(ctx context.Context, name string) (*Upstream, string) {
	r := s.registry
	find := func() *Upstream {
		r.mu.RLock()
		defer r.mu.RUnlock()
		for _, p := range r.lists.prompts {
			if p.Key == name {
				return p.from
			}
		}
		return nil
	}
	r.recall()
	u := find()
	if u == nil {
		r.needFresh(ctx, func(u *Upstream) bool { return strings.HasPrefix(name, u.config.Prefix) })
		if u = find(); u == nil {
			return nil, ""
		}
	}
	return u, name[len(u.config.Prefix):]
}

func (s *service) getPrompt(ctx context.Context, c *rpc.Caller, params json.RawMessage) (any, error) {
	name := rawjson.StringMember(params, "name")
	u, theirs := s.prompt(ctx, name)
	if u == nil {
		return nil, rpc.Errorf(mcp.CodeInvalidParams, "unknown prompt: %.100q", name)
	}
	result, err := s.forward(ctx, c, u, "prompts/get", rawjson.WithMember(params, "name", theirs))
	return dressPrompt(c.Version, result), err
}

// complete answers completion/complete: "ref" names a prompt, or the template of a resource.
func (s *service) complete(ctx context.Context, c *rpc.Caller, params json.RawMessage) (any, error) {
	ref := rawjson.Member(params, "ref")
	switch rawjson.StringMember(ref, "type") {
	case "ref/prompt":
		name := rawjson.StringMember(ref, "name")
		u, theirs := s.prompt(ctx, name)
		if u == nil {
			return nil, rpc.Errorf(mcp.CodeInvalidParams, "unknown prompt: %.100q", name)
		}
		return s.forward(ctx, c, u, "completion/complete", rawjson.WithMember(params, "ref", rawjson.WithMember(ref, "name", theirs)))
	case "ref/resource":
		return s.forwardURI(ctx, c, rawjson.StringMember(ref, "uri"), "completion/complete", params)
	}
	return nil, rpc.Errorf(mcp.CodeInvalidParams, `params.ref.type must be "ref/prompt" or "ref/resource"`)
}

// dressPrompt makes of the messages of a prompt what a version knows.
func dressPrompt(v *mcp.Version, result json.RawMessage) json.RawMessage {
	messages := rawjson.Member(result, "messages")
	if v.Audio && v.ResourceLinks && v.ContentMeta || len(messages) == 0 || messages[0] != '[' {
		return result
	}
	dressed := []json.RawMessage{}
	rawjson.EachElement(messages, func(message []byte) bool {
		if content := rawjson.Member(message, "content"); rawjson.IsObject(content) {
			message = rawjson.WithMember(message, "content", dressContent(v, content))
		}
		dressed = append(dressed, message)
		return true
	})
	return rawjson.WithMember(result, "messages", dressed)
}
