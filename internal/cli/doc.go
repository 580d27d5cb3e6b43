// Package cli is the command line, one file a command. What a server is made of is in internal/serve, what a person sees in
// internal/term (the screen of top: internal/top), the record of a session in internal/trace, the files of hosts in internal/hosts, what init writes in internal/propose.
//
//	main ─▶ Process.Main ─▶ invocation.run ─▶ a command (cobra) ─▶ serve.Setup
//	                                            └─▶ dial: a server after "--", or this one in process ─▶ term.View
//
// An error becomes an exit code in run: serve.UsageError is 2, exitError its own number, all else 1.
//
// Goroutines: the command runs in one of its own, so that run can leave at a second signal; doctor has one for each server that it
// starts. The calls of a client come back on those of package rpc.
package cli
