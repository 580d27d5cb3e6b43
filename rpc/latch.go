package rpc

import (
	"sync"
	"sync/atomic"
)

// Latch is closed once and stays so. Use it instead of a channel where most latches are never waited for: its channel
// is made when somebody asks for it. The zero value is open.
type Latch struct {
	set  atomic.Bool
	mu   sync.Mutex
	done chan struct{} // nil: nobody has waited
}

// Set closes it. It may be called again.
func (l *Latch) Set() {
	if l.set.Load() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.set.Swap(true) && l.done != nil {
		close(l.done)
	}
}

// IsSet reports whether Set has been called.
func (l *Latch) IsSet() bool { return l.set.Load() }

// Done is closed by Set.
func (l *Latch) Done() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done == nil {
		l.done = make(chan struct{})
		if l.set.Load() {
			close(l.done)
		}
	}
	return l.done
}
