// Package httpclient reaches a server at a URL: the client's half of MCP's Streamable HTTP transport
// (https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http and, for the
// handshake era, https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#streamable-http).
// A [Transport] looks like the two pipes of a server: lines are written to it and read from it, so an
// rpc.Client, or a host whose session is traced, sees no difference.
//
//	Write ─ a line ─┬─ request ──────────────▶ POST ─┬─ JSON ────▶ pipe ─▶ Read
//	                ├─ notification, response ▶ POST │              ▲
//	                └─ cancels a request of          └─ events ─────┤
//	                   2026-07-28: closes its POST        │ lost    │
//	                                                      ▼         │
//	after notifications/initialized ───────▶ GET ──── events ───────┘
//
// In the handshake era, a lost stream is resumed by the id of its last event. Without such an id, the request
// is sent again where that does no harm; for tools/call it might (see request.harmless).
//
// No message is queued: while nobody reads, connections wait, and with them the server.
//
// Goroutines: one for each request without an answer; one for the standing stream; net/http's. Only one
// goroutine may call Write.
//
// Locks: link.mu, never held across I/O.
//
// Words: the standing stream is the one that GET opens without an event's id: messages that answer no
// request.
//
// Where things stand:
//
//	a line becomes a request                  Transport.send (transport.go), link.headersOf (link.go)
//	a stream is resumed, or sent again        request.exchange, request.resumes, request.harmless (request.go); how long: tries (request.go)
//	a response with an error status           request.refused (request.go)
//	nothing is served at the URL              Dial, servesMCP (dial.go)
//	credentials go to no other server         sameServer (link.go)
//	arguments that are also headers           link.learn (link.go), package headers
//	a request is cancelled                    Transport.cancel (transport.go)
package httpclient
