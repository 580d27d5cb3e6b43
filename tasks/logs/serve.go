package logs

import (
	"time"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tasks/run"
)

// Serve adds the resources methods and subscriptions/listen to srv.
func Serve(srv *rpc.Server, runner *run.Runner, o Options) {
	s := &server{runner: runner, o: o}
	srv.Declare(func(_ *rpc.Caller, caps *mcp.ServerCapabilities) {
		caps.Resources = &mcp.ResourcesCapability{Subscribe: true}
	})
	srv.Handle(rpc.Handshake, "resources/list", s.listResources)
	srv.Handle(rpc.Handshake, "resources/templates/list", s.listTemplates)
	srv.Handle(rpc.Handshake, "resources/read", s.readResource)
	srv.Handle(rpc.Handshake, "resources/subscribe", s.subscribe)
	srv.Handle(rpc.Handshake, "resources/unsubscribe", s.unsubscribe)
	srv.Handle(rpc.Stateless, "resources/list", s.listResources)
	srv.Handle(rpc.Stateless, "resources/templates/list", s.listTemplates)
	srv.Handle(rpc.Stateless, "resources/read", s.readResource)
	srv.Handle(rpc.Stateless, "subscriptions/listen", s.listen)
}

// The resources of the stateless era say how long they may be cached (2026-07-28 server/utilities/caching).

// logTTL is how long the log of a task that has ended may be cached: it does not change, but is deleted with
// its task.
const logTTL = time.Minute

// templatesTTL is how long the list of templates may be cached: runnel has one template, which never changes.
const templatesTTL = time.Minute

// pageTTL is how long the page of the app may be cached: it changes only with runnel's version.
const pageTTL = time.Minute

// private returns the hints for a resource of an owner; nil in the handshake era.
func private(c *rpc.Caller, ttl time.Duration) *mcp.Cacheable {
	if c.Era != rpc.Stateless {
		return nil
	}
	return &mcp.Cacheable{TTLMs: ttl.Milliseconds(), CacheScope: "private"}
}

// templateHints returns the hints for the list of templates; nil in the handshake era.
func (s *server) templateHints(c *rpc.Caller, others bool) *mcp.Cacheable {
	hints := mcp.Cacheable{TTLMs: templatesTTL.Milliseconds(), CacheScope: "public"}
	if others {
		hints = s.o.Others.Hints()
	}
	if c.Era != rpc.Stateless {
		return nil
	}
	return &hints
}
