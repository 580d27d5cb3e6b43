// Package command is the kind of tool that runs a program and streams what it prints.
//
//	config.Command ─ New ─▶ Command
//	arguments ─ inputs, templates ─▶ argv, environment, stdin ─▶ process.Child
//	stdout, stderr ─▶ textStream (escape sequences, UTF-8, secrets, lines) ─▶ the task's log
//	                     ├─▶ text.Shaper: what the result shows
//	                     └─▶ progressMarks: how far it is
//	exit, signal, timeout ─▶ outcome ─▶ result, status
//
// Goroutines: those of process.Child; one per output pipe writes to the text streams. All have ended when Call returns.
//
// It has no locks.
//
//	template   a word with placeholders, {{name}}
//	inputs     what the arguments may be: names, defaults, the JSON Schema
//	outcome    how a command ended
//	recipe     all that makes a command anew in another process
//	record     what one run prints, as the log and the result have it
//
// Where things stand:
//
//	an argument becomes words of the command              expand, template.fill (argv.go)
//	what arguments may be                                 parseInputs (inputs.go)
//	how a command ended, and what the result says of it   record.outcome, outcome.result (outcome.go)
//	output becomes structured content                     outcome.structured (outcome.go)
//	progress is found in output                           progressMarks.scan (progressmarks.go)
package command
