package rpc

import (
	"context"
	"slices"
	"sync"
	"time"

	"runnel/internal/pause"
)

// Broadcast wakes all watchers of something, such as the list of tools, when it changes. Use it where the
// watchers then read it anew, so that one wake-up can stand for several changes. The zero value has no
// watchers.
type Broadcast struct {
	mu       sync.Mutex
	watchers []chan struct{}
}

// Watch starts watching: changed receives a value after one or more calls of Send. stop ends it.
func (b *Broadcast) Watch() (changed <-chan struct{}, stop func()) {
	watcher := make(chan struct{}, 1)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.watchers = append(b.watchers, watcher)
	return watcher, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.watchers = slices.DeleteFunc(b.watchers, func(w chan struct{}) bool { return w == watcher })
	}
}

// Send wakes all watchers without waiting for them.
func (b *Broadcast) Send() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, watcher := range b.watchers {
		trySend(watcher, struct{}{})
	}
}

// trySend wakes the goroutine that receives from a channel of capacity 1, now or when it next does.
func trySend[T any](c chan<- T, value T) {
	select {
	case c <- value:
	default:
	}
}

// ListPace is the shortest time between two notifications that a list has changed: a client reads the list
// again after each one. Whatever leads to such a notification need not be faster.
const ListPace = time.Second

// Announce calls tell when changed receives a value, at most once per [ListPace]: changes in between are
// combined. It returns when ctx ends or tell fails. Use it with the channel of a Watch to send list_changed
// notifications to a client.
func Announce(ctx context.Context, changed <-chan struct{}, tell func() error) {
	for {
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
		if tell() != nil {
			return
		}
		if !pause.For(ctx, ListPace) {
			return
		}
	}
}
