// Package detach lets a call of a command outlive the process in which it was made.
//
//	tools.Call.Detach ─ Supervisors.Start ─▶ a process of the same program, in a new session
//	                      order (stdin) ─▶ takes over the task in the state, makes the command again, runs it
//	                      answer ◀─ "taken", or why not
//
// A supervisor ends with its task: when that has ended, has timed out, is cancelled by any runnel on the
// state, or has expired. If the supervisor is killed, its guard kills the command.
//
// Goroutines, per supervisor: that of process.Fork, which waits for its end, and that of os/exec, which
// writes the order. It has no locks.
//
//	supervisor   the process that runs one detached task and keeps it in the state
//	order        what a supervisor reads from its stdin: which task, and how to make the command again
package detach
