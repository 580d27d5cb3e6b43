// Package proxy reaches the network for a child that has none of its own: hosts of a list, and nothing else.
// It knows nothing of tools.
//
//	child ─ HTTP, CONNECT or SOCKS5 ─▶ Serve ─▶ is it in the list? ─▶ its addresses ─▶ are they public? ─▶ host
//	                                            └────────── no: Refused ──────────────────┘
//
// Names are resolved here, once: the address that was looked at is the one that is reached. What a connection
// carries is not looked at, but for plain HTTP, whose every request names its host.
//
// Goroutines: Serve has one for the listener, one for the HTTP server, and two for each connection, which end
// with Serve.
package proxy
