// Package methods answers clients about their tasks: the tasks methods of the handshake protocols
// (handshake.go) and of the tasks extension (stateless.go), and runnel/tasks/variables of both
// (methods.go). They stand on the Runner of package run, which keeps owners apart and finds a task wherever
// it runs.
//
//	request ─▶ a limit, the era's rule (methods.go) ─▶ handler ─▶ Runner ─▶ answer
//
// It has no lock. Its only goroutines are those of View.Relay of package run, for a tasks/result that waits;
// they end with the request.
//
// Where things stand:
//
//	a client has shown that it can do tasks     Used (methods.go)
//	a method needs the tasks extension          NeedTasks (stateless.go)
//	tasks/result waits, and asks                handshake.go, View.Relay of package run
//	tasks/update brings answers                 stateless.go, then Runner.Answer of package run
//	tasks/list pages                            handshake.go
package methods
