package engine

import (
	"context"
	"maps"
	"slices"
	"time"
)

const (
	// heedInterval is how often Heed repeats what it has returned.
	heedInterval = 250 * time.Millisecond
	// heedMost is how long it waits before it looks by itself, so that a runner with nothing left to watch
	// can stop.
	heedMost = time.Second
)

// Heed implements tasks.State.
func (s *State) Heed(ctx context.Context) (asked, fenced []string, err error) {
	sent, unread := s.news.read()
	wait := heedMost
	if asked, fenced, err = s.heard(ctx); err == nil && len(asked)+len(fenced) > 0 {
		if wait = heedInterval; unread {
			return asked, fenced, nil
		}
	}
	select {
	case <-sent:
		s.news.read()
	case <-time.After(wait):
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
	return s.heard(ctx)
}

func (s *State) heard(ctx context.Context) (asked, fenced []string, err error) {
	for _, sp := range s.opened() {
		some, others, failed := sp.heard(ctx)
		asked, fenced = append(asked, some...), append(fenced, others...)
		if failed != nil {
			err = failed
		}
	}
	return asked, fenced, err
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
