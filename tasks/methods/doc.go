// Package methods answers clients about their tasks: the tasks methods of the handshake protocols
// (handshake.go) and of the tasks extension (stateless.go), and runnel/tasks/variables of both
// (variables.go). They stand on the Runner of package run, which keeps owners apart and finds a task wherever
// it runs.
//
//	request ─▶ a limit, the era's rule (methods.go) ─▶ handler ─▶ Runner ─▶ answer
//
// It has no lock. Its only goroutines are those of View.Relay of package run, for a tasks/result that waits;
// they end with the request.
package methods
