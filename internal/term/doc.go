// Package term is everything that a person sees on a terminal and is asked there.
//
//	view.go   a call: its output on stdout as it comes, a bar or spinner on stderr
//	ask.go    questions of a tool (Asker), one at a time
//	form.go   the fields of a JSON schema: the arguments of a tool, or the fields of a question
//	table.go  lines no wider than the terminal, ages
//	text.go   a stranger's words made harmless; text cut to a line
//
// A whole screen, for runnel top, is drawn in internal/top.
//
// Text from a server or a tool reaches a terminal only through Printable, except a tool's output itself.
//
// Goroutines: one moves the spinner of a View, and one reads stdin from an Asker's first question to the end
// of the process.
//
// Locks: Asker.turn is held while a question is open, View.mu while the terminal is written to. Asker.turn
// comes first.
package term
