package tools

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// AddUpstream adds a server, whose tools, prompts and resources join the lists when it has told them. A tool of runnel's own wins over one of its
// name, and of two upstreams the one whose name comes first.
func (r *Registry) AddUpstream(u *Upstream) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	i, taken := slices.BinarySearchFunc(r.upstreams, u.name, func(u *Upstream, name string) int { return strings.Compare(u.name, name) })
	if taken {
		return fmt.Errorf("two upstreams are named %q", u.name)
	}
	u.registry = r
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

// KeepIn keeps what upstreams have in a directory, for the next runnel: that of the state.
func (r *Registry) KeepIn(dir string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dir = dir
}

// Narrow says that the only client will use no tool but the one of a name: no upstream is started that cannot have it.
func (r *Registry) Narrow(tool string) { r.only = tool }

// need starts the upstreams that have not been started, and waits until it is known what they have; not longer than an upstream may
// keep a client waiting: what comes later is told as a change of the list.
func (r *Registry) need(ctx context.Context) {
	if r.only != "" {
		r.needTool(ctx, r.only)
		return
	}
	r.recall()
	for _, u := range r.begin(func(*Upstream) bool { return true }) {
		if r.catalogOf(u) == nil {
			u.awaitSettled(ctx)
		}
	}
}

// needTool is need for the upstreams that may have a tool, none if its name is known.
func (r *Registry) needTool(ctx context.Context, name string) {
	r.recall()
	if r.lookup(name) == nil {
		r.needFresh(ctx, func(u *Upstream) bool { return strings.HasPrefix(name, u.config.Prefix) })
	}
}

// needFresh is need for what some of the upstreams have now, whatever they had when they ran last.
func (r *Registry) needFresh(ctx context.Context, wanted func(*Upstream) bool) {
	for _, u := range r.begin(wanted) {
		u.awaitSettled(ctx)
	}
}

// begin starts some of the upstreams.
func (r *Registry) begin(wanted func(*Upstream) bool) (begun []*Upstream) {
	r.mu.RLock()
	list := r.upstreams
	r.mu.RUnlock()
	for _, u := range list {
		if wanted(u) {
			u.begin.Do(func() { r.start(u) })
			begun = append(begun, u)
		}
	}
	return begun
}

func (u *Upstream) awaitSettled(ctx context.Context) {
	select {
	case <-u.settled:
	case <-ctx.Done():
	}
}

// recall reads what the upstreams had when they ran last.
func (r *Registry) recall() {
	r.mu.RLock()
	list, dir := r.upstreams, r.dir
	r.mu.RUnlock()
	for _, u := range list {
		u.remember.Do(func() {
			u.capabilities = r.clientCapabilities()
			if c := u.recall(dir); c != nil {
				r.take(u, c, false)
			}
		})
	}
}

func (r *Registry) start(u *Upstream) {
	r.recall()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || u.ctx.Err() != nil { // taken out of the config before it was needed
		close(u.settled)
		return
	}
	dir := r.dir
	r.upstreamRuns.Go(func() {
		u.run(func(c *catalog) {
			r.take(u, c, true)
			if c != nil {
				if err := u.keep(dir, c); err != nil {
					u.log.Debug().Err(err).Msg("what the upstream has is not kept: the next runnel has to start it for its lists")
				}
			}
		})
	})
}

// take takes what an upstream has, instead of what it had. told: it has just said so.
func (r *Registry) take(u *Upstream, c *catalog, told bool) {
	var entries []*entry
	if c != nil {
		entries = u.toolEntries(c.Tools, told)
	}
	r.mu.Lock()
	if !slices.Contains(r.upstreams, u) || u.told && !told { // it has been taken out of the config, or has been faster
		r.mu.Unlock()
		return
	}
	u.entries, u.catalog, u.told = entries, c, told
	tools, lists := r.tools, r.lists
	r.joinUpstreams()
	newTools := !sameList(tools, r.tools)
	newPrompts, newResources := r.lists.changes(&lists)
	r.mu.Unlock()
	if r.shown.Load() {
		r.tell(newTools, newPrompts, newResources)
	}
}

// tell tells which lists have changed.
func (r *Registry) tell(tools, prompts, resources bool) {
	if tools {
		r.changes.Send()
	}
	if prompts {
		r.promptChanges.Send()
	}
	if resources {
		r.resourceChanges.Send()
	}
}

// whole reports whether the lists have what all upstreams have.
func (r *Registry) whole() bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return !slices.ContainsFunc(r.upstreams, func(u *Upstream) bool { return !u.told })
}

// replaceUpstreams takes new upstreams instead of the old ones, which go on where they are the same. r.mu is held.
func (r *Registry) replaceUpstreams(with []*Upstream) {
	next := slices.Clone(with)
	for _, u := range next {
		u.registry = r
	}
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

// joinUpstreams puts what the upstreams have into the lists, instead of what stood there. r.mu is held.
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
	r.joinLists()
}

// lookup returns the tool of a name, which an upstream may have to tell first; nil if there is none.
func (s *service) lookup(ctx context.Context, name string) *entry {
	if e := s.registry.lookup(name); e != nil {
		return e
	}
	s.registry.needTool(ctx, name)
	return s.registry.lookup(name)
}
