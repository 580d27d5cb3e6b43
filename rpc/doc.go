// Package rpc speaks MCP's stdio transport: JSON-RPC 2.0, one message a line, on two pipes
// (https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#stdio).
// It knows no tool and no task; the rooms above it register their methods on a [Server], as on net/http.
//
// The way of a line:
//
//	in ─ lineReader ─ stream.ReadObject ─▶ jsonrpc2.Conn ─ session.Handle ─ admit ─ Handler (own goroutine)
//	                       │ malformed: answered here                                  │ result
//	                       ▼                                                           ▼
//	out ◀─ writer ◀──── control: replies, notifications, requests, appended at once ◀──┘
//	          ▲
//	          └──────── lanes: streams, each waits its turn and for room
//
// Goroutines of a [Server.Serve]:
//
//  1. The reader (it belongs to the jsonrpc2.Conn) frames, checks and dispatches. It owns the handshake. It waits
//     for no handler and not for the client to read: overload is refused with an error, unless slots become free (inflight.admit).
//  2. The writer writes whatever there is, one write at a time. A goroutine that has little to say and finds nobody writing
//     (the reader with the answer to a ping, a tool that appends to a quiet log) does not wake it but writes itself, as far as
//     the client takes it without a wait (writer.writeNow). After a long write the writer looks whether there is something
//     to read, and wakes the reader (nudge.go).
//  3. One for each request in flight, which runs its [Handler]; some stay for the next request (stack.go).
//  4. Serve's own, which waits for the end and orders it: drain, cancel, flush.
//
// [Dial] is the other side: a [Client] starts a server, or takes its pipes, and speaks the newest era that both know.
package rpc
