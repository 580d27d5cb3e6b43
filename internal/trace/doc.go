// Package trace records what a host and a server say to each other (Record), and can stand between the two
// (Run, Relay).
//
//	host ── stdin ──▶ Tap ──▶ server
//	host ◀── Tap ◀── stdout ─ server
//	          └── Record.Lines ──▶ one line a message ──▶ file
//
// Goroutines: one for each direction (Run, Relay). Locks: Record.mu, since lines of both directions come at
// the same time.
package trace
