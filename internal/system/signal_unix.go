//go:build unix

package system

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// KeepWriteErrors makes errors of what else would end this process: a pipe that nobody reads any more, and a file that may not grow
// (ulimit -f). Not signal.Ignore: children inherit an ignored signal, and "yes | head" would not end as it should.
func KeepWriteErrors() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE, syscall.SIGXFSZ) }

// KillSelf ends this process by a signal, as if it had not been caught.
func KillSelf(s syscall.Signal) {
	signal.Reset(s)
	_ = syscall.Kill(os.Getpid(), s)
	time.Sleep(time.Second) // any thread may take it
	os.Exit(128 + int(s))   // it was ignored when this process began, as SIGINT is in what a script starts with &
}

// SignalName is the name of a signal, such as SIGTERM, "" if it has none.
func SignalName(s syscall.Signal) string { return unix.SignalName(s) }
