package tools

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// AddUpstream adds a server, whose tools join the list when it has told them. A tool of runnel's own wins over one of its
// name, and of two upstreams the one whose name comes first.
func (r *Registry) AddUpstream(u *Upstream) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	i, taken := slices.BinarySearchFunc(r.upstreams, u.name, func(u *Upstream, name string) int { return strings.Compare(u.name, name) })
	if taken {
		return fmt.Errorf("two upstreams are named %q", u.name)
	}
	r.upstreams = slices.Insert(r.upstreams, i, u)
	return nil
}

// Close ends all upstreams and returns when nothing is left of them. Calls of theirs fail.
func (r *Registry) Close() {
	r.mu.Lock()
	r.closed = true
	for _, u := range r.upstreams {
		u.stop()
	}
	r.mu.Unlock()
	r.upstreamRuns.Wait()
}

// need starts the upstreams that have not been started, and waits until their tools are known; not longer than an upstream may
// keep a client waiting: what comes later is told as a change of the list.
func (r *Registry) need(ctx context.Context) {
	r.mu.RLock()
	list := r.upstreams
	r.mu.RUnlock()
	for _, u := range list {
		u.begin.Do(func() { r.start(u) })
	}
	for _, u := range list {
		select {
		case <-u.settled:
		case <-ctx.Done():
		}
	}
}

func (r *Registry) start(u *Upstream) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || u.ctx.Err() != nil { // taken out of the config before it was needed
		close(u.settled)
		return
	}
	r.upstreamRuns.Go(func() { u.run(func(list []*entry) { r.publish(u, list) }) })
}

// publish takes the tools of an upstream, instead of those that it had.
func (r *Registry) publish(u *Upstream, list []*entry) {
	r.mu.Lock()
	if !slices.Contains(r.upstreams, u) { // it has been taken out of the config
		r.mu.Unlock()
		return
	}
	u.entries, u.told = list, true
	before := r.tools
	r.joinUpstreams()
	news := r.shown.Load() && !sameList(before, r.tools)
	r.mu.Unlock()
	if news {
		r.changes.Tell()
	}
}

// whole tells whether the list has the tools of all upstreams.
func (r *Registry) whole() bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return !slices.ContainsFunc(r.upstreams, func(u *Upstream) bool { return !u.told })
}

// replaceUpstreams takes new upstreams instead of the old ones, which go on where they are the same. r.mu is held.
func (r *Registry) replaceUpstreams(with []*Upstream) {
	next := slices.Clone(with)
	for _, old := range r.upstreams {
		i := slices.IndexFunc(next, old.same)
		if i < 0 {
			old.retire()
			continue
		}
		next[i].stop()
		next[i] = old
	}
	r.upstreams = next
	r.joinUpstreams()
}

// joinUpstreams puts the tools of the upstreams into the list, instead of those that stood there. r.mu is held.
func (r *Registry) joinUpstreams() {
	r.tools = slices.DeleteFunc(slices.Clone(r.tools), func(e *entry) bool { return e.from != nil })
	for _, u := range r.upstreams {
		for _, e := range u.entries {
			if err := r.insert(e); err != nil && !u.clashes[e.spec.Name] {
				u.clashes[e.spec.Name] = true
				u.log.Warn().Str("tool", e.spec.Name).Msg("a tool of an upstream is left out: there is another one of its name; give the upstream a prefix")
			}
		}
	}
}

// lookup returns the tool of a name, which an upstream may have to tell first; nil if there is none.
func (s *service) lookup(ctx context.Context, name string) *entry {
	if e := s.registry.lookup(name); e != nil {
		return e
	}
	s.registry.need(ctx)
	return s.registry.lookup(name)
}
