// Package askpass serves a page of this machine at which a person types one password.
//
//	Open ─▶ Page.URL ─▶ a person's browser ─▶ Page.Password
//
// The page is for a client that can send its user to a URL: MCP lets no server ask for a password in another
// way ("Servers MUST NOT use form mode elicitation to request sensitive information such as passwords",
// 2026-07-28 client/elicitation; the versions before say the same). So the client never has the password, nor
// does the model.
//
// Each page has a listener of its own on loopback, and a path that cannot be guessed, which only the client
// gets. It takes one password; looking at it changes nothing, since a browser or a client may look before the
// user does. One goroutine serves it until Close.
package askpass
