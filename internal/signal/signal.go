// Package signal tells goroutines that something has happened: once and for all (Latch), that there is
// something to look at (Wake), or the same to all who look (Broadcast).
package signal

import (
	"slices"
	"sync"
	"sync/atomic"
)

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

// Wake wakes the goroutine that receives from it, now or when it next does. It receives one value for all
// calls of Send since it last received one.
type Wake chan struct{}

// NewWake makes a Wake.
func NewWake() Wake { return make(Wake, 1) }

// Send does not wait.
func (w Wake) Send() {
	select {
	case w <- struct{}{}:
	default:
	}
}

// Broadcast wakes all watchers of something, such as the list of tools, when it changes. Use it where the
// watchers then read it again, so that one wake-up can stand for several changes. The zero value has no
// watchers.
type Broadcast struct {
	count    atomic.Int32 // of the watchers: Send is often called where there is none
	mu       sync.Mutex
	watchers []Wake
}

// Watch starts watching: changed receives a value after one or more calls of Send. stop ends it.
func (b *Broadcast) Watch() (changed <-chan struct{}, stop func()) {
	watcher := NewWake()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.watchers = append(b.watchers, watcher)
	b.count.Store(int32(len(b.watchers)))
	return watcher, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.watchers = slices.DeleteFunc(b.watchers, func(w Wake) bool { return w == watcher })
		b.count.Store(int32(len(b.watchers)))
	}
}

// Send wakes all watchers without waiting for them.
func (b *Broadcast) Send() {
	if b.count.Load() == 0 { // a later watcher reads what has changed already
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, watcher := range b.watchers {
		watcher.Send()
	}
}
