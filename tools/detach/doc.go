// Package detach lets a call of a command outlive the process that it was made in.
//
//	tools.Call.Detach ─ Supervisors.Start ─▶ a process of the same program, in a session of its own
//	                      order (stdin) ─▶ takes the task over in the state, makes the command anew, runs it
//	                      answer ◀─ "taken", or why not
//
// A supervisor ends when its task does: by itself, at a timeout, cancelled by any runnel on that state, or expired. Its guard takes the
// command along when it is killed.
//
// Goroutines: for each supervisor that of process.Fork, which waits for its end, and that of os/exec, which writes the order. It has no locks.
//
//	supervisor   the process that runs one detached task and keeps it in the state
//	order        all that a supervisor is told, on its stdin: which task, and how to make the command anew
package detach
