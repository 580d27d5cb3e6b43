// Package trace writes down what a host and a server say to each other (Record), and can stand between the two (Run).
//
//	host ── stdin ──▶ Tap ──▶ server
//	host ◀── Tap ◀── stdout ─ server
//	          └── Record.Lines ──▶ one line a message ──▶ file
//
// Goroutines: one for each direction (Run). Record has a mutex: it takes lines of both directions.
package trace
