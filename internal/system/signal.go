package system

import (
	"fmt"
	"syscall"
)

// SignalError is why a context has ended: this process has received the signal.
type SignalError syscall.Signal

func (s SignalError) Error() string {
	if syscall.Signal(s) == syscall.SIGHUP {
		return "the terminal has gone (SIGHUP)"
	}
	return fmt.Sprintf("%v signal received", syscall.Signal(s))
}
