package rpc

import "sync"

// Latch is closed once and stays so. Use it instead of a channel where most latches are never waited for: its channel
// is made when somebody asks for it. The zero value is open.
type Latch struct {
	mu   sync.Mutex
	set  bool
	done chan struct{} // nil: nobody has waited
}

// Set closes it. It may be called again.
func (l *Latch) Set() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.set {
		return
	}
	l.set = true
	if l.done != nil {
		close(l.done)
	}
}

// IsSet reports whether Set has been called.
func (l *Latch) IsSet() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.set
}

// Done is closed by Set.
func (l *Latch) Done() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done == nil {
		l.done = make(chan struct{})
		if l.set {
			close(l.done)
		}
	}
	return l.done
}
