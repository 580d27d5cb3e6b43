// Package upstream serves the tools, prompts and resources of other MCP servers beside runnel's own.
//
//	tools/call ──▶ servedTool ─┐                      ┌▶ link ──▶ call ──▶ tools.Output
//	prompts, resources, ... ───┴▶ Set ──▶ Server ─────┤             ▲
//	                               ▲        │ run     └── rpc.Client reads: notification, request
//	lists ◀── join ◀── take ◀── catalog ◀───┘                       │
//	                               └ kept                           └▶ session, subscriptions: messages outside of calls
//
// A definition is a server's part of the config. A Server starts when something that it has is needed, and is
// restarted by its policy. A link is one connection to it, a call is one tool call on a link, and a catalog
// holds the server's description of itself. The session stands for the client outside of calls. A Set holds
// all servers, beside a registry of tools.
//
// Goroutines of a server that is up:
//
//  1. that of Server.run, which starts the server, reads its lists again when they change, and waits for its end;
//  2. silence.watch, which pings;
//  3. link.listen, which holds the subscription to the lists of a server of the stateless era;
//  4. one for each subscription to a resource of such a server;
//  5. those of rpc.Client, whose reader hands out messages, and those of remote.Call for each call.
//
// A server that was removed from the config has one more, which waits for the last call and stops the server.
//
// Locks: Set.mu comes before those of the registry and of a Server, link.mu before that of a call's tracker.
// The others are taken alone.
//
// Where things stand:
//
//	a server is started, or reached    link.dial (link.go)
//	a server that hangs is noticed     silence.watch (hung.go)
//	a server that ended is noticed     Server.serve (server.go)
//	either is started again            Server.run (server.go)
//	what does not pass as it is        the table in pass.go
//	a method that runnel lacks         Set.other, Set.otherNotice (forward.go), link.notification, link.request (link.go)
//	runnels in a circle                hops (pass.go), Set.Came (set.go)
//	a worker's servers ask             Set.ServeOthers (set.go), link.asks (link.go)
package upstream
