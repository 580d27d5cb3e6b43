//go:build unix

package top

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

// signals are what a terminal and its shell say.
type signals struct {
	resized, goOn chan os.Signal
}

func newSignals() *signals {
	s := &signals{resized: make(chan os.Signal, 1), goOn: make(chan os.Signal, 1)}
	signal.Notify(s.resized, syscall.SIGWINCH)
	signal.Notify(s.goOn, syscall.SIGCONT)
	return s
}

func (s *signals) end() {
	signal.Stop(s.resized)
	signal.Stop(s.goOn)
}

// wait stops the process and those that its shell started with it, as the terminal would, and returns when they go on. Nobody may have
// caught SIGTSTP before: a Go program that did so once does not stop by it any more (Go 1.26).
func (s *signals) wait() {
	select {
	case <-s.goOn: // from before
	default:
	}
	_ = syscall.Kill(0, syscall.SIGTSTP)
	const unheard = time.Second // a process that no shell waits for does not stop
	select {
	case <-s.goOn:
	case <-time.After(unheard):
	}
}
