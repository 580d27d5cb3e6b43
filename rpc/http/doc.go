// Package httpserver is the second way in to an [rpc.Server]: MCP's Streamable HTTP transport, on one path.
// (https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http and, for the
// handshake era, https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#streamable-http).
// The rpc.Server knows nothing of HTTP.
//
//	POST ─ guard ─ owner ─┬─ 2026-07-28: a session of its own ──┬─▶ rpc.Session.Take ─▶ handler
//	                      └─ before: the one of Mcp-Session-Id ─┘                        │
//	response ◀─ JSON, or events ◀─ stream ◀─ the line's writer, of rpc ◀─────────────────┘
//	GET ◀────── events ◀──────── the session's own stream, or one that is resumed
//
// A stream is the answer to one POST: its lines, numbered, until a connection has taken them. It is bounded
// in bytes: when it is full, the line's writer waits, and with it the handler or task that writes, as on
// stdio; other streams do not wait. A full stream without a connection is abandoned if another stream can
// continue after it. In 2026-07-28 closing the connection cancels its request.
//
// In the handshake era Last-Event-ID resumes a stream. An event's id is STREAM-NUMBER or STREAM-NUMBER-MARK:
//
//   - A stream outlives its connection for a while and keeps the last events that were sent: it continues after NUMBER.
//   - Where memory no longer has those, and in another process, a new stream continues after MARK. The rooms above (rpc.Caller.Marks) put
//     marks on the lines of a retained task: the task, the dialect, the position in the task's log and the dialect's count. So nothing of a
//     stream need be retained except its task. Lines that are not in the log (any status but the last, the tool's progress, a request to the
//     client) are not repeated. Before the first mark, and for a call that is not a task, MARK is the request's id: a client that comes back
//     for an answer that is lost gets an error response that says so (exchange.go).
//
// A session is a row of the state (stored.go): what initialize said about the client, what it has subscribed
// to, and the front that has it. Another front passes its requests on (forward.go), or opens the session
// again if that front has ended. A session without a row does not exist: its client gets 404, and initializes
// again.
//
// The ids of events come from the client and are not signed: they grant nothing that tasks/get would not,
// since the token of each request decides who the owner is. Lines that waited on the standing stream are lost
// with the process; the client is notified to read the lists again.
//
// Goroutines: those of net/http, one for each connection and request; those of [rpc.Session]; one that closes
// idle sessions.
//
// Locks: Server.mu and stream.mu are never held together, nor across I/O; Fresh.mu is held while a small file
// is read, session.storing while the state is asked.
//
// Words: the standing stream of a session carries lines that answer no request; an event is a line with an id
// that a client can resume from; to revive a session is to open it again as it was stored.
//
// Where things stand:
//
//	a request is routed                Server.serve (endpoint.go), and for a page Server.show (download.go)
//	a request is let in                guard (admit.go), Server.admit (admit.go); which tokens are valid: package oauth
//	headers agree with the body        headers.go
//	how many requests, how large       Server.enter (server.go), Server.read (post.go), Server.holdBytes (post.go)
//	how many sessions                  Server.add (sessions.go)
//	a JSON response or events          answer.respond (respond.go)
//	the era of a POST                  isStateless (headers.go); of the message in it, package rpc once more
//	how much waits, how much is kept   stream.add (stream.go)
//	an event gets its id               stream.appendID (respond.go); the name of its stream: session.stream (exchange.go)
//	a client resumes (Last-Event-ID)   session.resume (exchange.go), stream.connect (stream.go); package feed
//	a session that is not here         Server.find (sessions.go): Server.revive (stored.go) or Server.forward (forward.go)
//	a session ends                     Server.close (sessions.go)
//	a task's stream is closed early    session.handOn: the standing stream goes on; session.forward: tasks/result asks (exchange.go)
//	the server ends                    Server.Stop (server.go); what it cuts off Server.cut (handshake.go)
package httpserver
