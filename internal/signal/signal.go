// Package signal tells goroutines that something has happened: once and for all (Latch), that there is
// something to look at (Wake), the same to all who look (Broadcast), or that what was counted has ended
// (Counter).
package signal

import (
	"context"
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

// Counter is a sync.WaitGroup that may be added to during a wait: a WaitGroup may panic then. The zero value
// counts nothing.
type Counter struct {
	count atomic.Int64
	none  Broadcast
}

// Add counts one more.
func (c *Counter) Add() { c.count.Add(1) }

// Done counts one less.
func (c *Counter) Done() {
	if c.count.Add(-1) == 0 {
		c.none.Send()
	}
}

// Go counts f, and runs it in a goroutine.
func (c *Counter) Go(f func()) {
	c.Add()
	go func() {
		defer c.Done()
		f()
	}()
}

// Count returns how many there are.
func (c *Counter) Count() int { return int(c.count.Load()) }

// Wait returns nil when the count is zero, or ctx's error.
func (c *Counter) Wait(ctx context.Context) error {
	if c.count.Load() == 0 {
		return nil
	}
	none, stop := c.none.Watch()
	defer stop()
	for c.count.Load() > 0 {
		select {
		case <-none:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
