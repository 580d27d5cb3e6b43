// Package command has the tools that run a program and stream what it prints.
//
//	config.Command ─ New ─▶ Command
//	arguments ─ package inputs ─▶ argv, environment, stdin ─▶ process.Child
//	stdout, stderr ─▶ textStream (escape sequences, UTF-8, secrets, lines) ─▶ the task's log
//	                     ├─▶ text.Shaper: the text of the result
//	                     ├─▶ progressMarks: progress
//	                     └─▶ watcher: ready, and lines that are events (after the log)
//	exit, signal, timeout ─▶ outcome ─▶ result, status
//
// Goroutines: those of process.Child, of which one per output pipe writes to the text streams. All have ended
// when Call returns.
//
// Locks: watcher.mu, taken by those goroutines and by timers that look at unfinished lines; Call.Ready and
// Call.Match are called under it.
//
//	word       an element of an argv, with placeholders, {{name}}
//	outcome    how a command ended
//	recipe     a command in a form that another process can read
//	record     the output of one run, for the log and for the result
//
// Where things stand:
//
//	an argument becomes words of the command              expand (argv.go), Template.Fill (package inputs)
//	which arguments a tool accepts                        Parse (package inputs)
//	how a command ended, and the result that says so      record.outcome, outcome.result (outcome.go)
//	output becomes structured content                     outcome.structured (outcome.go)
//	secrets are masked in output                          textStream.take and masks (record.go)
//	what was drawn on a terminal becomes a result         drawn (record.go), with package terminal
//	progress is found in output                           progressMarks.scan (progressmarks.go)
package command
