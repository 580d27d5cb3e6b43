// Package terminal is the terminal of a command: what its keys send (Keys), and what its screen shows
// (Screen).
//
// The screen is kept by github.com/charmbracelet/x/vt. A Screen reads the log of a task as text.Encoder has
// written it, so that every reader of the log, in any process, can have one.
package terminal
