// Package top is the screen of "runnel top": the tasks of a state, and the output of one task. It gets tasks
// from a [Source] and does not know where they live.
//
//	Source.List, once a second ─┐
//	Source.Tail, of one task ───┼─▶ events ─▶ loop ─▶ table or output ─ rows ─▶ screen ─▶ the terminal
//	stdin ─ keys ───────────────┘
//
// Goroutines: Run's own owns everything that is shown, and alone draws it. One lists tasks, one reads stdin,
// one follows the task whose output is shown, and one waits for each cancellation; they hand functions to the
// first. One waits for SIGQUIT. All end before Run returns, except the reader of stdin, which ends with the
// process.
//
// Locks: screen.mu is held while the terminal is written to or its mode is changed; no other lock is taken
// under it.
//
//	row    one line of the screen: spans of text, each in one style
//	event  a function that Run's goroutine calls, between two drawings
//
// Where things stand:
//
//	what a task wrote is made harmless     safe (row.go); nothing else makes a span of a stranger's words
//	the terminal is given back             screen.leave (screen.go), at the end, before a stop, and when something panics
//	how much of an output is kept          keep (output.go)
//
// A library for screens would slow down every start of a server: two of them (charm.land/bubbletea/v2,
// github.com/gdamore/tcell/v3) add 0.18 ms and 0.24 ms to 1.15 ms of initialisation, and 1.6 MB and 0.4 MB to
// the program. This package needs only a terminal's raw mode (golang.org/x/term), and writes lines.
package top
