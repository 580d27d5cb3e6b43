// Package term is everything that a person sees on a terminal, and all that is asked there.
//
//	view.go   a call: its output on stdout as it comes, a bar or spinner on stderr
//	ask.go    questions of a tool (Asker), one at a time
//	form.go   what a JSON schema asks for: the arguments of a tool, the fields of a question
//	table.go  lines no wider than the terminal, ages
//	text.go   a stranger's words made harmless; text cut to a line
//
// Nothing of a server or a tool reaches a terminal but through Printable, except the output of a tool itself.
package term
