// Package oauth checks access tokens as an OAuth 2.1 resource server does
// (https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization): JWTs that one issuer signed for one audience.
//
//	token ─▶ Issuer.Check ─▶ keys.find ─▶ signature ─▶ issuer, audience, times, scopes ─▶ Bearer
//	                             ▲
//	issuer's metadata ─▶ jwks_uri ─▶ keys, read again when they are old, and for a key id that is unknown
//
// Nothing that a token says is fetched: the only addresses are the issuer's metadata and the jwks_uri in it.
//
// Goroutines: one reads old keys again while they are still used, for fetchPatience at most. Locks: keys.mu is never held across I/O.
package oauth
