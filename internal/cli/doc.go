// Package cli is the command line, one file per command. The rooms below it: internal/serve makes a server,
// internal/term is all that a person sees (the screen of top: internal/top), internal/trace records a
// session, internal/hosts edits the files of hosts, internal/propose proposes what init writes, and
// internal/doctor checks whether runnel can work here.
//
//	main ─▶ Process.Main ─▶ invocation.run ─▶ a command (cobra) ─▶ serve.Setup
//	                                            └─▶ dial: the target, or runnel itself in process ─▶ term.View
//
// run turns an error into an exit code: 2 for a serve.UsageError, its own number for an exitError, 1 for
// everything else. The variables of the environment are read once, before a command runs (root.go).
//
// Goroutines: the command runs in a separate one, so that run can leave at a second signal. A client's
// callbacks run on the goroutines of package rpc.
//
// Where things stand:
//
//	an error becomes an exit code      invocation.run (root.go); the codes are in invocation.go
//	the exit code of runnel call       exitOf (call.go), from the result; invocation.call (callcmd.go), if the call was given up
//	the exit code of runnel tasks      invocation.aboutTask (local.go)
//	a second signal ends the process   invocation.leave (root.go)
//	a call becomes a task or not       call.result (call.go)
package cli
