package rpc

import "sync/atomic"

// Latch is set once and stays set. Use it instead of a channel where most are never waited for: its channel
// is only made when it is asked for. The zero value is not set.
type Latch struct {
	done atomic.Pointer[chan struct{}] // nil: not asked for yet; &closed: set
}

var closed = make(chan struct{})

func init() { close(closed) }

// Set sets the latch. It may be called again.
func (l *Latch) Set() {
	if done := l.done.Swap(&closed); done != nil && done != &closed {
		close(*done)
	}
}

// IsSet reports whether Set has been called.
func (l *Latch) IsSet() bool { return l.done.Load() == &closed }

// Done returns a channel that Set closes.
func (l *Latch) Done() <-chan struct{} {
	if done := l.done.Load(); done != nil {
		return *done
	}
	made := make(chan struct{})
	if l.done.CompareAndSwap(nil, &made) {
		return made
	}
	return *l.done.Load()
}
