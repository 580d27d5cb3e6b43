package tools

import (
	"context"

	"runnel/internal/signal"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tasks/feed"
	"runnel/tasks/logs"
	"runnel/tasks/methods"
	"runnel/tasks/run"
)

// Serve adds tools/list, tools/call and the resources methods to srv, and the fallback tools to the registry.
// Use it instead of ListenAndServe for a server with options, a state or a transport of your own. It returns
// what starts the tools without a client.
func Serve(srv *rpc.Server, registry *Registry, runner *run.Runner, o ServeOptions) *Starter {
	if o.Source == nil {
		o.Source = noSource{}
	}
	s := &service{registry: registry, runner: runner, parked: newParking(), o: o,
		passwords: passwordPages{open: map[string]*passwordPage{}}}
	own := s.fallbackTools()
	var page *logs.Page
	if o.App != nil {
		page = &o.App.Page
		own = append(own, appTools(o.App)...)
	}
	registry.addOwn(own...)
	srv.Declare(func(_ *rpc.Caller, caps *mcp.ServerCapabilities) {
		caps.Tools = &mcp.ListCapability{ListChanged: true}
	})
	srv.OnSession(func(c *rpc.Caller) {
		seenBy(c)
		Announce(runner, c, "notifications/tools/list_changed", &registry.changes)
	})
	srv.OnDrain(func(context.Context) { s.parked.close() })
	if o.Resumable {
		runner.Go(s.resumeLeft)
	}
	if o.Resumable {
		srv.HandleResume((&feed.Resumer{Runner: runner, Deliver: o.Deliver, Log: o.Log}).Resume)
	}
	srv.Handle(rpc.Handshake, "tools/list", s.list)
	srv.Handle(rpc.Handshake, "tools/call", s.call)
	srv.Handle(rpc.Stateless, "tools/list", s.list)
	srv.Handle(rpc.Stateless, "tools/call", s.callStateless)
	logs.Serve(srv, runner, logs.Options{Deliver: o.Deliver, Tools: &registry.changes, Page: page,
		Others: o.Others})
	return &Starter{s}
}

// tellUsed tells a session that has seen the fallback tools, as soon as it uses tasks, that its list no
// longer has them.
func (s *service) tellUsed(ctx context.Context, c *rpc.Caller) {
	ctx, cancel := c.WhileOpen(ctx)
	defer cancel()
	select {
	case <-methods.Used(c).Done():
		if !s.fallbackListed(c) {
			_ = c.Notify("notifications/tools/list_changed", nil) // fails only if the reader has closed
		}
	case <-ctx.Done():
	}
}

// Announce tells a session about changes of a list as long as the session is open.
func Announce(runner *run.Runner, c *rpc.Caller, method string, list *signal.Broadcast) {
	changed, stop := list.Watch()
	runner.Go(func(ctx context.Context) {
		defer stop()
		ctx, cancel := c.WhileOpen(ctx)
		defer cancel()
		rpc.Announce(ctx, changed, func() error { return c.NotifyWait(ctx, method, nil) })
	})
}
