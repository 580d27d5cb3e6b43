// Package cli is the command line, one file a command. What a server is made of is in internal/serve, what a person sees in
// internal/term, the record of a session in internal/trace.
//
//	main ─▶ Process.Main ─▶ invocation.run ─▶ a command (cobra) ─▶ serve.Setup
//	                                            └─▶ dial: a server behind "--", or this one in process ─▶ term.View
//
// An error becomes an exit code in run: serve.UsageError is 2, exitError its own number, all else 1.
package cli
