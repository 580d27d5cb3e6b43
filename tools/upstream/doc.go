// Package upstream makes the tools, prompts and resources of other MCP servers those of this one.
//
//	tools/call ──▶ servedTool ─┐                      ┌▶ link ──▶ call ──▶ tools.Output
//	prompts, resources, ... ───┴▶ Set ──▶ Server ─────┤             ▲
//	                               ▲        │ run     └── rpc.Client reads: notification, request
//	lists ◀── join ◀── take ◀── catalog ◀───┘                       │
//	                               └ kept                           └▶ session, subscriptions: what is of no call
//
// A definition is what the config says of a server. A Server starts when something of its own is needed, and is started again as its policy
// says. A link is one connection to it, a call one call of a tool on that, a catalog what the server has told of itself. The session is the
// client outside of calls. A Set is all servers, beside a registry of tools.
//
// Goroutines of a server that is up:
//
//  1. run's, which starts the server, reads its lists again when they change, and waits for its end;
//  2. silence.watch, which pings;
//  3. link.listen, which holds the subscription to the lists of a server of the stateless era;
//  4. one for each resource that is subscribed to there;
//  5. those of rpc.Client, whose reader hands out what comes, and those of remote.Call for each call.
//
// One that is taken out of the config has another one, which waits for its last call and stops it.
//
// Locks: Set.mu comes before those of the registry and of a Server, link.mu before that of a call's tracker. The others are taken alone.
//
// Where things stand:
//
//	a server is started, or reached   link.dial (dial.go)
//	a server that hangs is noticed   silence.watch (hung.go)
//	a server that ended is noticed   Server.serve (server.go)
//	either is started again          Server.run (server.go)
//	runnels in a circle              hops (hops.go), Set.Came (set.go)
//	a worker's servers ask           Set.ServeOthers (set.go), link.asks (link.go)
package upstream
