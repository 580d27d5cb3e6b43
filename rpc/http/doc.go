// Package httpserver is the second way in to an [rpc.Server]: MCP's Streamable HTTP transport, on one path.
// (https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http and, for the handshake era,
// https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#streamable-http). The servers do not know of it.
//
//	POST ─ guard ─ owner ─┬─ 2026-07-28: a session of its own ──┬─▶ rpc.Session.Take ─▶ handler
//	                      └─ before: the one of Mcp-Session-Id ─┘                        │
//	response ◀─ JSON, or events ◀─ stream ◀─ the line's writer, of rpc ◀─────────────────┘
//	GET ◀────── events ◀──────── the session's own stream, or one that is resumed
//
// A stream is what answers one POST: its lines, numbered, until a connection has taken them. It is bounded in bytes: when it is full, the
// line's writer waits, and with it whoever writes, as on stdio; other streams do not. In 2026-07-28 a connection that closes cancels its
// request.
//
// In the handshake era Last-Event-ID resumes a stream. An event's id is STREAM-NUMBER or STREAM-NUMBER-MARK:
//
//   - For a while a stream outlives its connection, and keeps the last events that were sent: it goes on after NUMBER.
//   - Where memory does not have that, and in another process, a new stream goes on from MARK. It comes from above (rpc.Caller.Marks)
//     with the lines of a task that is kept: the task, the dialect, the position in the task's log and the dialect's count. So nothing
//     is kept of a stream but what is kept of its task. Lines that are not of the log (a status other than the last, what the tool says of
//     its progress, a question to the client) do not come again. A call that is not a task has no marks: it ends with the process.
//   - The id of a session holds what initialize said of the client (revive.go). By that a server opens a session again which it does not know.
//
// Both are the client's own words, and are not signed: they give nothing that initialize and tasks/get would not, since the owner is
// who the token of each request says. What is lost with a process is what waited on the standing stream, what a session had subscribed
// to, and that a client had ended the session.
//
// Goroutines: net/http's, one for each connection and request; what [rpc.Session] has; one closes sessions that nobody uses.
//
// Locks: Server.mu and stream.mu are never held together, nor across I/O; Fresh.mu is held while a small file is read.
//
// Words: the standing stream is a session's own, with what answers no request; an event is a line as a client can resume from it; to revive
// a session is to open it again by its id.
//
// Where things stand:
//
//	which requests there are           Server.serve (endpoint.go), and for a page Server.show (page.go)
//	who may come in                    guard (guard.go), Server.admit (admit.go), which tokens count there package oauth
//	headers agree with the body        headers.go, with arguments params.go
//	how many requests, how large       Server.enter (server.go), Server.read (post.go), Server.hold (bodies.go)
//	how many sessions                  Server.add (sessions.go)
//	a JSON response or events          Server.respond (respond.go)
//	the era of a POST                  isStateless (headers.go); of the message in it, package rpc once more
//	how much waits, how much is kept   stream.add (stream.go)
//	a client resumes                   session.resume (exchange.go), stream.connect (stream.go); from a mark: package tools, rejoin.go
//	a session that is not known        Server.revive (revive.go)
//	a session ends                     Server.close (sessions.go)
//	the server ends                    Server.Stop (server.go); what it cuts off Server.cut (handshake.go)
package httpserver
