package upstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/rs/zerolog"

	"runnel/rpc"
	"runnel/tools"
)

// Set are the tools of a registry together with other servers, whose tools join them, and whose prompts and resources it lists.
type Set struct {
	Tools *tools.Registry

	// Set before anything is asked. Dir keeps what servers have, for the next runnel; "" = nothing is kept. Only is the one tool that the only
	// client will use; "" = any: no server is started that cannot have it.
	Dir, Only string

	runs    sync.WaitGroup
	shown   atomic.Bool // somebody has seen a list
	session session

	// Fleet waits, for a while, until it is known which tools workers have (Lend); nil = none are asked for. Set before anything is asked.
	Fleet func(ctx context.Context)

	promptChanges, resourceChanges rpc.Broadcast // told when its lists change

	mu      sync.RWMutex // taken before that of Tools
	servers []*Server    // by name
	lists   lists
	lent    []tools.Tool // see Lend
	closed  bool
}

// NewSet makes a set without servers, for Add.
func NewSet(registry *tools.Registry) *Set { return &Set{Tools: registry} }

// Add adds a server, whose tools, prompts and resources join the lists when it has told them. A tool of runnel's own wins over one of its
// name, and of two servers the one whose name comes first.
func (s *Set) Add(u *Server) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, taken := slices.BinarySearchFunc(s.servers, u.name, func(u *Server, name string) int { return strings.Compare(u.name, name) })
	if taken {
		return fmt.Errorf("two upstreams are named %q", u.name)
	}
	u.session = &s.session
	s.servers = slices.Insert(s.servers, i, u)
	return nil
}

// ServeOthers is instead of Serve where nobody is served, and calls are of clients elsewhere: servers are told that they may ask for all that
// can be put to these.
func (s *Set) ServeOthers() { s.session.elsewhere = true }

// Close ends all servers and returns when nothing is left of them. Calls of theirs fail.
func (s *Set) Close() {
	s.mu.Lock()
	s.closed = true
	for _, u := range s.servers {
		u.stop()
	}
	s.mu.Unlock()
	s.runs.Wait()
}

// all returns the servers.
func (s *Set) all() []*Server {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.servers
}

// joined are the lists of all servers.
func (s *Set) joined() lists {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.lists
}

// Lend makes tools of workers join the lists, instead of those before. All others win over one of its name.
func (s *Set) Lend(list []tools.Tool) {
	s.mu.Lock()
	s.lent = list
	newTools, _, _ := s.join(s.Tools)
	s.mu.Unlock()
	if s.shown.Load() {
		s.tell(newTools, false, false)
	}
}

// needFleet waits until it is known which tools workers have.
func (s *Set) needFleet(ctx context.Context) {
	if s.Fleet != nil {
		s.Fleet(ctx)
	}
}

// Meet takes note of the first client: servers are told that they may ask for what that client can do. It reports whether there
// are servers.
func (s *Set) Meet(c *rpc.Caller) bool {
	s.session.meet(c)
	s.recall()
	return len(s.all()) > 0
}

// Need starts the servers that have not been started, and waits until it is known what they have; not longer than a server may
// keep a client waiting: what comes later is told as a change of the list.
func (s *Set) Need(ctx context.Context, c *rpc.Caller) {
	s.Meet(c)
	defer s.shown.Store(true)
	if s.Only != "" {
		s.NeedTool(ctx, s.Only)
		return
	}
	for _, u := range s.all() {
		s.start(u)
	}
	s.needFresh(ctx, s.unknown)
	s.needFleet(ctx)
}

// unknown reports whether it is not known what a server has.
func (s *Set) unknown(u *Server) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return u.catalog == nil
}

// NeedTool is Need for the servers that may have a tool, none if its name is known.
func (s *Set) NeedTool(ctx context.Context, name string) {
	s.recall()
	if s.Tools.Lookup(name) == nil {
		s.needFresh(ctx, func(u *Server) bool { return u.mayHave(name) })
		s.needFleet(ctx)
	}
}

// needFresh is Need for what some of the servers have now, whatever they had when they ran last.
func (s *Set) needFresh(ctx context.Context, wanted func(*Server) bool) {
	var begun []*Server
	for _, u := range s.all() {
		if wanted(u) {
			s.start(u)
			begun = append(begun, u)
		}
	}
	for _, u := range begun {
		select {
		case <-u.opened.Done():
		case <-ctx.Done():
		}
	}
}

// recall reads what the servers had when they ran last.
func (s *Set) recall() {
	for _, u := range s.all() {
		u.remember.Do(func() {
			u.capabilities = s.session.capabilities()
			if c := loadCatalog(catalogFile(s.Dir, u.definition, u.capabilities)); c != nil {
				s.take(u, c, false)
			}
		})
	}
}

// start starts a server, once.
func (s *Set) start(u *Server) {
	s.recall()
	u.begin.Do(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		u.open()
		if s.closed || u.ctx.Err() != nil { // taken out of the config before it was needed
			u.settle()
			return
		}
		file := catalogFile(s.Dir, u.definition, u.capabilities)
		s.runs.Go(func() {
			u.run(func(c *catalog) {
				s.take(u, c, true)
				if c == nil {
					return
				}
				if err := c.keep(file); err != nil {
					u.log.Debug().Err(err).Msg("what the upstream has is not kept: the next runnel has to start it for its lists")
				}
			})
		})
	})
}

// enter gives a call the server, until u.busy.RUnlock. It waits for the server, which it starts if nobody has: what it has may be
// known from when it ran last.
func (s *Set) enter(ctx context.Context, u *Server) (*link, error) {
	if !u.busy.TryRLock() {
		return nil, u.failure(errors.New("it was taken out of the config"))
	}
	s.start(u)
	l, err := u.connected(ctx)
	if err != nil {
		u.busy.RUnlock()
	}
	return l, err
}

// take takes what a server has, instead of what it had. told: it has just said so.
func (s *Set) take(u *Server, c *catalog, told bool) {
	var list []tools.Tool
	if c != nil {
		log := u.log
		if !told {
			log = zerolog.Nop()
		}
		for _, spec := range c.tools(u.definition, log) {
			list = append(list, &servedTool{set: s, u: u, spec: spec})
		}
	}
	s.mu.Lock()
	if !slices.Contains(s.servers, u) || u.told && !told { // it has been taken out of the config, or has been faster
		s.mu.Unlock()
		return
	}
	if c != nil && u.catalog != nil {
		for _, method := range c.unread {
			c.Lists[method] = u.catalog.Lists[method]
		}
	}
	u.tools, u.catalog, u.told = list, c, told
	newTools, newPrompts, newResources := s.join(s.Tools)
	s.mu.Unlock()
	if s.shown.Load() {
		s.tell(newTools, newPrompts, newResources)
	}
}

// join makes the lists of what the servers have, and puts their tools into those of a registry; it reports in which lists clients see a
// difference. s.mu is held.
func (s *Set) join(registry *tools.Registry) (newTools, newPrompts, newResources bool) {
	before := s.lists
	s.lists = joinLists(s.servers)
	var list []tools.Tool
	for _, u := range s.servers {
		list = append(list, u.tools...)
	}
	changed, leftOut := registry.Join(append(list, s.lent...))
	for _, t := range leftOut {
		served, ok := t.(*servedTool)
		if !ok {
			continue
		}
		u := served.u
		if name := t.Describe().Name; !u.clashes[name] {
			u.clashes[name] = true
			u.log.Warn().Str("tool", name).Msg("a tool of an upstream is left out: there is another one of its name; give the upstream a prefix")
		}
	}
	return changed, s.lists.differs(promptList, before), s.lists.differs(resourceList, before) || s.lists.differs(templateList, before)
}

// tell announces which lists have changed.
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

// Whole reports whether the lists have what all servers have.
func (s *Set) Whole() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return !slices.ContainsFunc(s.servers, func(u *Server) bool { return !u.told })
}

// Replace takes the tools and the servers of another set instead of its own. Servers that are the same go on, others end with their last
// call. Clients that listen are told, if what they can see is not the same. A client that subscribed to a resource of a server that does not go on
// is told that it has changed: it may be gone, or the next server of the name has it.
func (s *Set) Replace(with *Set) {
	next := slices.Clone(with.servers)
	s.mu.Lock()
	before := s.servers
	for _, u := range next {
		u.session = &s.session
	}
	for _, old := range before {
		i := slices.IndexFunc(next, func(u *Server) bool { return u.name == old.name })
		switch {
		case i >= 0 && old.same(next[i].definition):
			next[i].stop()
			next[i] = old
			continue
		case i >= 0:
			next[i].subs = old.subs
		}
		old.retire()
	}
	s.servers = next
	_, newPrompts, newResources := s.join(with.Tools)
	told := s.Tools.Replace(with.Tools)
	// A new server starts when the list is asked for, which clients do when they are told.
	same := slices.Equal(before, s.servers)
	s.mu.Unlock()
	s.tell(!same && !told, newPrompts || !same, newResources || !same)
	for _, old := range before {
		if slices.Contains(next, old) || !old.subs.tellAll() {
			continue
		}
		if i := slices.IndexFunc(next, func(u *Server) bool { return u.name == old.name }); i >= 0 {
			s.start(next[i]) // it takes the subscriptions again
		}
	}
}

// Came takes note of a client that says how many runnels stand before this one. The error is why it is not to be served.
func (s *Set) Came(hops int) error {
	if hops > maxHops {
		return fmt.Errorf("%s: a url among their upstreams leads back to where it is used", tooManyHops(hops))
	}
	s.session.hops.came(hops)
	return nil
}
