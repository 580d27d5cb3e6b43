// Package terminal is the terminal of a command: what its keys send.
package terminal
