package tools

import (
	"context"
	"encoding/json"
	"time"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/logs"
)

// Serve adds tools/list, tools/call and the resources methods to srv, and the fallback tools to the registry.
func Serve(srv *rpc.Server, registry *Registry, runner *tasks.Runner, o ServeOptions) {
	if o.Source == nil {
		o.Source = noSource{}
	}
	s := &service{registry: registry, runner: runner, parked: newParking(), o: o}
	s.addFallbackTools()
	var page *logs.Page
	if o.App != nil {
		page = &o.App.Page
		s.addApp(o.App)
	}
	srv.Declare(func(_ *mcp.Version, caps *mcp.ServerCapabilities) {
		caps.Tools = &mcp.ListCapability{ListChanged: true}
	})
	srv.OnSession(func(c *rpc.Caller) {
		Announce(runner, c, "notifications/tools/list_changed", &registry.changes)
		runner.Go(func(ctx context.Context) { s.tellUsed(ctx, c) })
	})
	srv.OnDrain(func(context.Context) { s.parked.close() })
	if o.Resumable {
		srv.HandleResume(s.rejoin)
	}
	srv.Handle(rpc.Handshake, "tools/list", s.list)
	srv.Handle(rpc.Handshake, "tools/call", s.call)
	srv.Handle(rpc.Stateless, "tools/list", s.list)
	srv.Handle(rpc.Stateless, "tools/call", s.callStateless)
	logs.Serve(srv, runner, logs.Options{Pump: o.Pump, Tools: &registry.changes, Page: page, Others: o.Others})
}

// tellUsed tells a session that has seen the fallback tools, and then uses tasks, that its list has none of them any more.
func (s *service) tellUsed(ctx context.Context, c *rpc.Caller) {
	ctx, cancel := c.WhileOpen(ctx)
	defer cancel()
	select {
	case <-tasks.Used(c).Done():
		if fallbackSeen(c).IsSet() && !s.fallbackListed(c) {
			_ = c.Notify("notifications/tools/list_changed", nil) // fails only when nobody is there to read it
		}
	case <-ctx.Done():
	}
}

func (s *service) list(ctx context.Context, c *rpc.Caller, params json.RawMessage) (any, error) {
	cursor, err := rpc.Cursor(params)
	if err != nil {
		return nil, err
	}
	s.o.Source.Need(ctx, c)
	if s.fallbackListed(c) {
		fallbackSeen(c).Set()
	}
	key := listKey{version: c.Version, extra: !s.fallbackHidden(c), secrets: s.runner.Secrets()}
	if s.o.App != nil && c.ShowsApps() {
		key.app = s.o.App.Page.Entry.URI
	}
	if c.Version.Stateless {
		key.hints = s.listHints()
	}
	return s.registry.list(key, cursor)
}

// listTTL is how long clients may keep a tool list: it changes only with the config and with upstreams, and whoever listens is told
// at once. One that lacks an upstream's tools is not to be kept.
const listTTL = time.Minute

func (s *service) listHints() mcp.Cacheable {
	// The fallback tools are shown to clients without tasks only: "private is appropriate [...] for filtered list
	// results" (2026-07-28 server/utilities/caching).
	scope := "public"
	if s.o.FallbackTools == "" || s.o.FallbackTools == "auto" {
		scope = "private"
	}
	fresh := listTTL
	if !s.o.Source.Whole() {
		fresh = 0
	}
	return mcp.Cacheable{TTLMs: fresh.Milliseconds(), CacheScope: scope}
}

// Announce tells a session of the changes of a list, as long as the session is open. It is for who serves lists of their own beside the tools.
func Announce(runner *tasks.Runner, c *rpc.Caller, method string, list *rpc.Broadcast) {
	changed, stop := list.Watch()
	runner.Go(func(ctx context.Context) {
		defer stop()
		ctx, cancel := c.WhileOpen(ctx)
		defer cancel()
		rpc.Announce(ctx, changed, func() error { return c.NotifyWait(ctx, method, nil) })
	})
}
