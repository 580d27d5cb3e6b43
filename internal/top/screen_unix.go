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
	resized, resume, quit chan os.Signal
}

// newSignals begins to hear them. SIGQUIT ends the process with its stacks, as it ends any Go program, after leave.
func newSignals(leave func()) *signals {
	s := &signals{resized: make(chan os.Signal, 1), resume: make(chan os.Signal, 1), quit: make(chan os.Signal, 1)}
	signal.Notify(s.resized, syscall.SIGWINCH)
	signal.Notify(s.resume, syscall.SIGCONT)
	signal.Notify(s.quit, syscall.SIGQUIT)
	go func() {
		if _, ok := <-s.quit; ok {
			leave()
			signal.Reset(syscall.SIGQUIT)
			_ = syscall.Kill(os.Getpid(), syscall.SIGQUIT)
		}
	}()
	return s
}

func (s *signals) end() {
	signal.Stop(s.quit)
	close(s.quit)
	signal.Stop(s.resized)
	signal.Stop(s.resume)
}

// wait stops the process and those that its shell started with it, as the terminal would, and returns when they go on. Nobody may have
// caught SIGTSTP before: a Go program that did so once does not stop by it any more (Go 1.26).
func (s *signals) wait() {
	select {
	case <-s.resume: // from before
	default:
	}
	_ = syscall.Kill(0, syscall.SIGTSTP)
	const unheard = time.Second // a process that no shell waits for does not stop
	select {
	case <-s.resume:
	case <-time.After(unheard):
	}
}
