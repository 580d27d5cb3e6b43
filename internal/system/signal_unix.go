//go:build unix

package system

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// KeepWriteErrors turns signals that would end this process into errors of write: for a pipe that nobody
// reads any more, and for a file that may not grow (ulimit -f). Not with signal.Ignore: children inherit an
// ignored signal, and "yes | head" would not end as it should.
func KeepWriteErrors() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE, syscall.SIGXFSZ) }

// KillSelf ends this process by a signal, as if it had not been caught.
func KillSelf(s syscall.Signal) {
	signal.Reset(s)
	_ = syscall.Kill(os.Getpid(), s)
	time.Sleep(time.Second) // the signal may arrive on any thread
	// The signal was ignored when this process began, as SIGINT is for a script's background commands.
	os.Exit(128 + int(s))
}

// SignalNumber returns the number of a signal, 0 if there is none of the name.
func SignalNumber(name string) int { return int(unix.SignalNum(name)) }

// SignalName returns the name of a signal, such as SIGTERM, "" if it has none.
func SignalName(s syscall.Signal) string { return unix.SignalName(s) }
