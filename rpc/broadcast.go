package rpc

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Broadcast wakes all who watch something whenever it changes, such as the list of tools. Use it where they look at the thing itself again,
// so that one wake-up does for several changes. The zero value has no watchers.
type Broadcast struct {
	mu       sync.Mutex
	watchers []chan struct{}
}

// Watch begins to watch: changed receives after one or more calls of Send. stop ends it.
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

// Send wakes all watchers. It does not wait for them.
func (b *Broadcast) Send() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, watcher := range b.watchers {
		select {
		case watcher <- struct{}{}:
		default:
		}
	}
}

// ListPace is the least time between two notifications that a list has changed: a client reads it again after each. What has a pace of its
// own, and ends in such a notification, need not be faster.
const ListPace = time.Second

// Announce calls tell for the changes of a list that come on changed: once for those that come in less than a second, or while tell
// waits. It ends with ctx, or when tell fails. Whoever tells a client of list_changed runs it, with a watcher's channel.
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
		select {
		case <-time.After(ListPace):
		case <-ctx.Done():
			return
		}
	}
}
