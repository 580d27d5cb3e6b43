// Package term is everything that a person sees on a terminal, and all that is asked there.
//
//	view.go   a call: its output on stdout as it comes, a bar or spinner on stderr
//	ask.go    questions of a tool (Asker), one at a time
//	form.go   what a JSON schema asks for: the arguments of a tool, the fields of a question
//	table.go  lines no wider than the terminal, ages
//	text.go   a stranger's words made harmless; text cut to a line
//
// A whole screen, for runnel top, is drawn in internal/top.
//
// Nothing of a server or a tool reaches a terminal but through Printable, except the output of a tool itself.
//
// Goroutines: one moves the spinner of a View, and one reads stdin from an Asker's first question to the end of the process.
//
// Locks: Asker.turn, which is held while a question is open, before View.mu, which is held while the terminal is written to.
package term
