//go:build unix

package top

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

// signals are those of a terminal and its shell.
type signals struct {
	resized, resume, quit chan os.Signal
}

// newSignals begins to receive them. After SIGQUIT it calls leave; then the process ends and prints its
// stacks, as any Go program does.
func newSignals(leave func()) *signals {
	s := &signals{resized: make(chan os.Signal, 1), resume: make(chan os.Signal, 1),
		quit: make(chan os.Signal, 1)}
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

// wait suspends the process and those that its shell started with it, as a terminal would, and returns when
// they continue. SIGTSTP must never have been caught before: after that, it no longer stops a Go program (Go
// 1.26).
func (s *signals) wait() {
	select {
	case <-s.resume: // an old one
	default:
	}
	_ = syscall.Kill(0, syscall.SIGTSTP)
	const unheard = time.Second // a process without a shell that waits for it does not stop
	select {
	case <-s.resume:
	case <-time.After(unheard):
	}
}
