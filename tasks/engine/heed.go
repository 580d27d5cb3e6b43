package engine

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

const (
	// heedInterval is how often Heed repeats what it has returned.
	heedInterval = 250 * time.Millisecond
	// heedMost is how long it waits before it looks by itself, so that a runner with nothing left to watch
	// can stop.
	heedMost = time.Second
)

// Notice wakes everyone who waits in Heed, or the next caller.
func (sp *Space) Notice() { sp.news.send() }

// Heed implements tasks.Shared. It opens nothing: a space that is not open runs no task.
func (sp *Space) Heed(ctx context.Context) (asked, fenced []string, err error) {
	sent, unread := sp.news.read()
	wait := heedMost
	if asked, fenced, err = sp.heard(ctx); err == nil && len(asked)+len(fenced) > 0 {
		if wait = heedInterval; unread {
			return asked, fenced, nil
		}
	}
	select {
	case <-sent:
		sp.news.read()
	case <-time.After(wait):
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
	return sp.heard(ctx)
}

// heard returns the tasks of this process that others ask to cancel, and those that others have ended.
func (sp *Space) heard(ctx context.Context) (asked, fenced []string, err error) {
	sp.mu.Lock()
	asked, fenced = slices.Collect(maps.Keys(sp.wanted)), slices.Collect(maps.Keys(sp.fenced))
	runs := len(sp.live)
	sp.mu.Unlock()
	if runs == 0 {
		return asked, fenced, nil
	}
	stored, err := sp.Asked(ctx)
	return append(asked, slices.DeleteFunc(stored, func(id string) bool { return sp.kept(id) == nil })...),
		fenced, err
}

// news announces that there is something for Heed, to all calls of it that wait, or to the next one.
type news struct {
	mu     sync.Mutex
	sent   chan struct{} // closed by send
	unread bool          // send was called since read
}

func (n *news) send() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.unread = true
	close(n.sent)
	n.sent = make(chan struct{})
}

// read returns a channel that the next send closes, and reports whether there was one since the last read.
func (n *news) read() (sent <-chan struct{}, unread bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	unread = n.unread
	n.unread = false
	return n.sent, unread
}
