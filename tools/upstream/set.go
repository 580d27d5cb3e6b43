package upstream

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"runnel/rpc"

	"runnel/tools"
)

// Set are the tools of a registry together with other servers, whose tools join them, and whose prompts and resources it lists.
type Set struct {
	Tools *tools.Registry

	runs  sync.WaitGroup
	only  string      // see Narrow
	shown atomic.Bool // somebody has seen a list

	promptChanges, resourceChanges rpc.Broadcast // of its lists

	mu      sync.RWMutex
	servers []*Server   // by name
	lists   lists       // of what they have beside tools
	dir     string      // see KeepIn
	client  *rpc.Caller // the first who asked for anything: its capabilities are those that upstreams are told; nil: nobody yet
	session *rpc.Caller // of the handshake era: takes what upstreams say and ask outside of calls; nil: there is none
	level   string      // see setLevel
	closed  bool
}

// NewSet makes a set without servers.
func NewSet(registry *tools.Registry) *Set { return &Set{Tools: registry} }

// Add adds a server, whose tools, prompts and resources join the lists when it has told them. A tool of runnel's own wins over one of its
// name, and of two upstreams the one whose name comes first.
func (s *Set) Add(u *Server) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, taken := slices.BinarySearchFunc(s.servers, u.name, func(u *Server, name string) int { return strings.Compare(u.name, name) })
	if taken {
		return fmt.Errorf("two upstreams are named %q", u.name)
	}
	u.set = s
	s.servers = slices.Insert(s.servers, i, u)
	return nil
}

// Close ends all upstreams and returns when nothing is left of them. Calls of theirs fail.
func (s *Set) Close() {
	s.mu.Lock()
	s.closed = true
	for _, u := range s.servers {
		u.stop()
	}
	s.mu.Unlock()
	s.runs.Wait()
}

// KeepIn keeps what upstreams have in a directory, for the next runnel: that of the state.
func (s *Set) KeepIn(dir string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dir = dir
}

// Narrow says that the only client will use no tool but the one of a name: no upstream is started that cannot have it.
func (s *Set) Narrow(tool string) { s.only = tool }

// Need starts the upstreams that have not been started, and waits until it is known what they have; not longer than an upstream may
// keep a client waiting: what comes later is told as a change of the list.
func (s *Set) Need(ctx context.Context, c *rpc.Caller) {
	s.Meet(c)
	defer s.shown.Store(true)
	if s.only != "" {
		s.NeedTool(ctx, s.only)
		return
	}
	s.recall()
	for _, u := range s.begin(func(*Server) bool { return true }) {
		if s.catalogOf(u) == nil {
			u.awaitSettled(ctx)
		}
	}
}

// NeedTool is Need for the upstreams that may have a tool, none if its name is known.
func (s *Set) NeedTool(ctx context.Context, name string) {
	s.recall()
	if s.Tools.Lookup(name) == nil {
		s.needFresh(ctx, func(u *Server) bool { return strings.HasPrefix(name, u.config.Prefix) })
	}
}

// needFresh is Need for what some of the upstreams have now, whatever they had when they ran last.
func (s *Set) needFresh(ctx context.Context, wanted func(*Server) bool) {
	for _, u := range s.begin(wanted) {
		u.awaitSettled(ctx)
	}
}

// begin starts some of the upstreams.
func (s *Set) begin(wanted func(*Server) bool) (begun []*Server) {
	s.mu.RLock()
	list := s.servers
	s.mu.RUnlock()
	for _, u := range list {
		if wanted(u) {
			u.begin.Do(func() { s.start(u) })
			begun = append(begun, u)
		}
	}
	return begun
}

func (u *Server) awaitSettled(ctx context.Context) {
	select {
	case <-u.settled:
	case <-ctx.Done():
	}
}

// recall reads what the upstreams had when they ran last.
func (s *Set) recall() {
	s.mu.RLock()
	list, dir := s.servers, s.dir
	s.mu.RUnlock()
	for _, u := range list {
		u.remember.Do(func() {
			u.capabilities = s.clientCapabilities()
			if c := u.recall(dir); c != nil {
				s.take(u, c, false)
			}
		})
	}
}

func (s *Set) start(u *Server) {
	s.recall()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || u.ctx.Err() != nil { // taken out of the config before it was needed
		close(u.settled)
		return
	}
	dir := s.dir
	s.runs.Go(func() {
		u.run(func(c *catalog) {
			s.take(u, c, true)
			if c != nil {
				if err := u.keep(dir, c); err != nil {
					u.log.Debug().Err(err).Msg("what the upstream has is not kept: the next runnel has to start it for its lists")
				}
			}
		})
	})
}

// take takes what an upstream has, instead of what it had. told: it has just said so.
func (s *Set) take(u *Server, c *catalog, told bool) {
	var tools []tools.Tool
	if c != nil {
		tools = u.wanted(c.Tools, told)
	}
	s.mu.Lock()
	if !slices.Contains(s.servers, u) || u.told && !told { // it has been taken out of the config, or has been faster
		s.mu.Unlock()
		return
	}
	u.tools, u.catalog, u.told = tools, c, told
	before := s.lists
	newTools := s.join(s.Tools)
	newPrompts, newResources := s.lists.changes(&before)
	s.mu.Unlock()
	if s.shown.Load() {
		s.tell(newTools, newPrompts, newResources)
	}
}

// tell tells which lists have changed.
func (s *Set) tell(tools, prompts, resources bool) {
	if tools {
		s.Tools.Changes().Send()
	}
	if prompts {
		s.promptChanges.Send()
	}
	if resources {
		s.resourceChanges.Send()
	}
}

// Whole reports whether the lists have what all upstreams have.
func (s *Set) Whole() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return !slices.ContainsFunc(s.servers, func(u *Server) bool { return !u.told })
}

// Replace takes the tools and the servers of another set instead of its own. Servers that are the same go on, others end with their last
// call. Clients that listen are told, if what they can see is not the same.
func (s *Set) Replace(with *Set) {
	next := slices.Clone(with.servers)
	s.mu.Lock()
	before, lists := s.servers, s.lists
	for _, u := range next {
		u.set = s
	}
	for _, old := range s.servers {
		i := slices.IndexFunc(next, old.same)
		if i < 0 {
			old.retire()
			continue
		}
		next[i].stop()
		next[i] = old
	}
	s.servers = next
	s.join(with.Tools)
	told := s.Tools.Replace(with.Tools)
	// A new upstream starts when the list is asked for, which clients do when they are told.
	same := slices.Equal(before, s.servers)
	newPrompts, newResources := s.lists.changes(&lists)
	s.mu.Unlock()
	s.tell(!same && !told, newPrompts || !same, newResources || !same)
}

// join makes the lists of what the upstreams have, and puts their tools into those of a registry; it reports whether clients see a
// difference there. s.mu is held.
func (s *Set) join(registry *tools.Registry) bool {
	s.joinLists()
	var list []tools.Tool
	for _, u := range s.servers {
		list = append(list, u.tools...)
	}
	changed, leftOut := registry.Join(list)
	for _, t := range leftOut {
		u := t.(*tool).u
		if name := t.Describe().Name; !u.clashes[name] {
			u.clashes[name] = true
			u.log.Warn().Str("tool", name).Msg("a tool of an upstream is left out: there is another one of its name; give the upstream a prefix")
		}
	}
	return changed
}
