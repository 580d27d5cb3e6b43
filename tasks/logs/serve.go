package logs

import (
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tasks"
)

// Serve adds the resources methods and subscriptions/listen to srv.
// Call it once for each server.
func Serve(srv *rpc.Server, runner *tasks.Runner, o Options) {
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
