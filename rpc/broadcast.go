package rpc

import "sync"

// Changes tells of changes of something to those who watch it. The zero value has nobody to tell.
type Changes struct {
	mu       sync.Mutex
	watchers map[chan struct{}]struct{}
}

// Watch begins to watch: changed receives after one or more changes. stop ends it.
func (c *Changes) Watch() (changed <-chan struct{}, stop func()) {
	watcher := make(chan struct{}, 1)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.watchers == nil {
		c.watchers = map[chan struct{}]struct{}{}
	}
	c.watchers[watcher] = struct{}{}
	return watcher, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.watchers, watcher)
	}
}

// Tell tells of a change.
func (c *Changes) Tell() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for watcher := range c.watchers {
		select {
		case watcher <- struct{}{}:
		default:
		}
	}
}
