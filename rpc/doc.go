// Package rpc speaks MCP's stdio transport: JSON-RPC 2.0, one message a line, on two pipes
// (https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#stdio).
// It knows nothing of tools and tasks; the rooms above it register their methods on a [Server], as on
// net/http. [Dial] is the other side: a [Client] starts a server, or takes its pipes, and speaks the newest
// era that both know.
//
// Both are roles of one peer. The path of a line:
//
//	in ─ lineReader ─ peer.take ─┬─ request ─▶ jsonrpc2.Conn ─▶ role.request ─▶ Handler (own goroutine)
//	                             ├─ answer ─▶ jsonrpc2.Conn ─▶ peer.send                    │
//	                             ├─ notification ─▶ role.notification                       │
//	                             └─ invalid ─▶ role.refuse                                  ▼
//	out ◀─ writer ◀─ control: replies, notifications, requests ◀────────────────────────────┘
//	          └◀──── lanes: streams, pulled in turn
//
// A [Session] is a client without pipes, for other transports: they pass each line to peer.take themselves,
// without a jsonrpc2.Conn, and each line has a writer and an output of its own.
//
// incoming holds the other side's requests that are being answered; outgoing holds our own that wait for an
// answer.
//
// Goroutines of a [Server.Serve] or a [Client]:
//
//  1. The reader (it belongs to the jsonrpc2.Conn) frames, checks and dispatches. It owns the handshake. It
//     waits for no handler and does not wait for the other side to read: overload is refused with an error,
//     unless slots become free (incoming.admit).
//  2. The writer writes, alone. For each write it takes the control lines that wait, pulls a lane, and so on.
//  3. One for each request in flight, which runs its [Handler].
//  4. Serve's own, which waits for the end and then drains, cancels and flushes. A client with a child has
//     one that waits for the child.
//
// A [Session] has no reader: a line is taken on its carrier's goroutine, one at a time. It has a writer, and
// one for each line.
//
// Locks: incoming.mu, outgoing.mu and writer.mu are never held together, nor across I/O or a call to another
// package's code. writer.mu may be taken under locks of the rooms above (a status is queued under them).
//
// Words: a slot is room for one request in flight; a turn is a lane's place in the writer's round; the head
// of a line is what all lines for one caller begin with.
//
// Files, from the top down; what a file uses stands below it:
//
//	request.go, eras.go, exchange.go, server.go      a server's sessions, and where handlers are registered
//	client.go, client_dial.go, client_child.go       a client
//	caller.go                                        what handlers get
//	conn.go, peer.go                                 both directions of requests
//	outgoing.go, incoming.go, message.go, frame.go   requests that wait, messages, lines
//	writer.go, encode.go, answer.go                  what is written
//
// Where things stand:
//
//	a request is admitted, its era decided          session.admit (request.go); in HTTP's headers: rpc/http/headers.go
//	what a version of the protocol can hold         mcp.Versions (rpc/mcp/version.go)
//	what a request says about its client, by era    session.open (eras.go), session.stateless (eras.go)
//	an overload of requests is refused              incoming.admit (incoming.go), which may wait for a slot first: slotPatience
//	a malformed line is found                       peer.take (peer.go), parseMessage (message.go)
//	a line is too long                              lineReader.line (frame.go); what runnel writes: mcp.MaxLine (rpc/mcp/content.go)
//	the other side does not read                    writer.try, writer.awaitTurn (writer.go); a task's output waits in package partials
//	a request is cancelled                          peer.cancelled (peer.go); one of ours: peer.send (peer.go)
//	an error gets its code                          call.answer (incoming.go)
//	a stream is resumed elsewhere                   Caller.Marks, Session.Resume (exchange.go)
//	the input ends                                  Server.Serve (server.go): Options.Drain, then ErrShutdown
//	a session ends                                  Server.Serve (server.go), Session.close (exchange.go)
//	a server that Dial started is stopped           child.end (client_child.go)
//	a malformed line is answered                    session.refuse (request.go), Client.refuse (client.go)
package rpc
