// Package oauth checks access tokens as an OAuth 2.1 resource server does
// (https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization): JWTs that one issuer signed
// for one audience.
//
//	token ─▶ Issuer.Check ─▶ keys.find ─▶ signature ─▶ issuer, audience, times, scopes ─▶ Bearer
//	                             ▲
//	issuer's metadata ─▶ jwks_uri ─▶ keys, read again when they are old, and for a key id that is unknown
//
// No address in a token is fetched: only the issuer's metadata and its jwks_uri are.
//
// Goroutines: one reads old keys again while they are still used, for fetchPatience at most. Locks: keys.mu
// is never held across I/O.
//
//	issuer    the authorization server that signs the tokens
//	audience  this server, as tokens name it
//	bearer    the client and subject of a valid token
//
// Where things stand:
//
//	a token is valid                          Issuer.Check, Issuer.read (issuer.go)
//	which keys may have signed it             keys.find (keys.go)
//	an issuer is not asked again and again    fetchPause, keys.refresh (keys.go)
//	where keys may be fetched from            keys.discover, secureURL (keys.go)
package oauth
