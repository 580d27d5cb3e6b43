package rpc

import "sync"

// Broadcast wakes all who watch something whenever it changes, such as the list of tools. The zero value has no watchers.
type Broadcast struct {
	mu       sync.Mutex
	watchers map[chan struct{}]struct{}
}

// Watch begins to watch: changed receives after one or more calls of Send. stop ends it.
func (b *Broadcast) Watch() (changed <-chan struct{}, stop func()) {
	watcher := make(chan struct{}, 1)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.watchers == nil {
		b.watchers = map[chan struct{}]struct{}{}
	}
	b.watchers[watcher] = struct{}{}
	return watcher, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.watchers, watcher)
	}
}

// Send wakes all watchers. It does not wait for them.
func (b *Broadcast) Send() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for watcher := range b.watchers {
		select {
		case watcher <- struct{}{}:
		default:
		}
	}
}
