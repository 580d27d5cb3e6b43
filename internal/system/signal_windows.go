package system

import (
	"os"
	"syscall"
)

// KeepWriteErrors does nothing: on Windows, a failed write is always an error.
func KeepWriteErrors() {}

// KillSelf ends this process by a signal, as if it had not been caught: on Windows, with the exit code that a
// Unix shell would show.
func KillSelf(s syscall.Signal) { os.Exit(128 + int(s)) }

// SignalNumber returns the number of a signal of Unix that stops a command, 0 for any other.
func SignalNumber(name string) int { return map[string]int{"SIGKILL": 9, "SIGTERM": 15}[name] }

// SignalName returns "": on Windows, no process ends by a signal.
func SignalName(syscall.Signal) string { return "" }
