package upstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"runnel/internal/shorten"
	"runnel/internal/signal"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tools"
)

// Set holds a registry of tools and the servers whose tools join it, and lists the servers' prompts and
// resources.
type Set struct {
	Tools *tools.Registry

	// Set before anything is asked. Dir keeps what servers have, for the next runnel; "" = nothing is kept.
	// Only is the one tool that the only client will use; "" = any: no server is started that cannot have it.
	Dir, Only string
	// Missing tells a model which tools are missing and why, "" if none are; nil = none are. It is asked for
	// each session.
	Missing func() string

	runs    sync.WaitGroup
	beat    time.Duration // a client that waits gets a sign of life so often; 0 = never
	shown   atomic.Bool   // a client has seen a list
	notices atomic.Int32  // that wait for a server (otherNotice)
	session session

	// Fleet waits, for a while, until the tools of workers are known (Lend); nil = there are no workers. Set
	// before anything is asked.
	Fleet func(ctx context.Context)

	promptChanges, resourceChanges signal.Broadcast // sent when its lists change

	mu      sync.RWMutex // taken before that of Tools
	servers []*Server    // by name
	lists   lists
	lent    []tools.Tool // see Lend
	closed  bool
}

// NewSet makes a set without servers, for Add.
func NewSet(registry *tools.Registry) *Set { return &Set{Tools: registry} }

// Add adds a server, whose tools, prompts and resources join the lists as soon as they are known. If two
// tools have the same name, runnel's own wins, otherwise that of the server whose name sorts first.
func (s *Set) Add(u *Server) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, taken := slices.BinarySearchFunc(s.servers, u.name,
		func(u *Server, name string) int { return strings.Compare(u.name, name) })
	if taken {
		return fmt.Errorf("two upstreams are named %q", u.name)
	}
	u.session = &s.session
	s.servers = slices.Insert(s.servers, i, u)
	return nil
}

// ServeOthers replaces Serve in a worker, whose calls come from clients of other processes. Servers may then
// ask for everything that such clients may support.
func (s *Set) ServeOthers() { s.session.elsewhere = true }

// Close ends all servers and returns when nothing is left of them. Calls in flight fail.
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

// joined returns the lists of all servers.
func (s *Set) joined() lists {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.lists
}

// Lend puts the tools of workers into the lists, in place of those lent before. A tool of runnel's own or of
// a server wins over a lent one of the same name.
func (s *Set) Lend(list []tools.Tool) {
	s.mu.Lock()
	s.lent = list
	changed := s.join(s.Tools)
	s.mu.Unlock()
	s.tell(changed)
}

// needFleet waits until the tools of workers are known.
func (s *Set) needFleet(ctx context.Context) {
	if s.Fleet != nil {
		s.Fleet(ctx)
	}
}

// Meet records the first client, whose capabilities servers see. It reports whether the set has servers.
func (s *Set) Meet(c *rpc.Caller) bool {
	s.session.meet(c)
	s.recall()
	return len(s.all()) > 0
}

// Need starts the servers that have not been started, and waits until their tools are known, or until a
// server among others has taken too long: its tools are then announced as a change of the list. A wrapped
// server is waited for as long as the client waits.
func (s *Set) Need(ctx context.Context, c *rpc.Caller) { s.needList(ctx, c, toolList) }

// needList is Need for one of the lists.
func (s *Set) needList(ctx context.Context, c *rpc.Caller, method string) {
	s.Meet(c)
	defer s.shown.Store(true)
	if s.Only != "" {
		s.NeedTool(ctx, c, s.Only)
		return
	}
	for _, u := range s.all() {
		s.start(u)
	}
	s.needFresh(ctx, c, method, false, s.unknown)
	s.needFleet(ctx)
}

// unknown reports whether a server's lists are those of its first start, which may not be known yet.
func (s *Set) unknown(u *Server) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return !u.recalled
}

// NeedTool starts the servers that may have a tool of this name, and waits for their lists as long as the
// client does. It does nothing if the tool is known.
func (s *Set) NeedTool(ctx context.Context, c *rpc.Caller, name string) {
	s.recall()
	if s.Tools.Lookup(name) == nil {
		s.needFresh(ctx, c, toolList, true, func(u *Server) bool { return u.mayHave(name) })
		s.needFleet(ctx)
	}
}

// maxWhyMissing is how much is said of servers that are down, in bytes.
const maxWhyMissing = 500

// WhyMissing names the servers that may have a tool of this name and are down, with the causes.
func (s *Set) WhyMissing(name string) string {
	var down []string
	for _, u := range s.all() {
		if err := u.whyDown(); err != nil && u.mayHave(name) {
			down = append(down, u.failure(err).Error())
		}
	}
	return shorten.Clip(strings.Join(down, "; "), maxWhyMissing)
}

// needFresh waits for a list of some servers: lists from the last time do not count. With patience it waits
// as long as the client does. A client that asked for progress gets signs of life.
func (s *Set) needFresh(ctx context.Context, c *rpc.Caller, method string, patient bool,
	wanted func(*Server) bool) {
	var begun []*Server
	for _, u := range s.all() {
		if wanted(u) {
			s.start(u)
			begun = append(begun, u)
		}
	}
	since, signs := time.Now(), 0
	for _, u := range begun {
		u.await(ctx, method, patient || u.name == WrappedName, s.beat, func() {
			if c == nil || len(c.Meta.ProgressToken) == 0 {
				return
			}
			signs++
			progress := map[string]any{"progressToken": c.Meta.ProgressToken,
				"progress": float64(signs) * leastProgress}
			if c.Version.ProgressMessage {
				progress["message"] = fmt.Sprintf("waiting for %s for %v", u.name,
					time.Since(since).Round(time.Second))
			}
			_ = c.TryNotify("notifications/progress", progress)
		})
	}
}

// leastProgress is the step of a sign of life: the progress of the call itself, which comes after it, is
// larger.
const leastProgress = 1e-6

// recall reads the servers' lists from the last time.
func (s *Set) recall() {
	for _, u := range s.all() {
		u.remember.Do(func() {
			u.client = s.session.client(u.version)
			if kept := loadCatalog(catalogFile(s.Dir, u.definition, u.client)); kept != nil {
				kept.specs = u.served(kept.Tools, zerolog.Nop())
				s.learn(u, false, func(c *catalog) { *c = *kept })
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
		if s.closed || u.ctx.Err() != nil { // taken out of the config before it was needed
			u.settle()
			return
		}
		file := catalogFile(s.Dir, u.definition, u.client)
		u.diary.file = u.Diary(s.Dir)
		s.runs.Go(func() {
			u.run(func(change func(*catalog)) { s.keep(u, s.learn(u, true, change), file) })
		})
	})
}

// keep stores a server's catalog for the next runnel.
func (s *Set) keep(u *Server, c *catalog, file string) {
	if c == nil {
		return
	}
	u.keeping.Lock()
	defer u.keeping.Unlock()
	if err := c.keep(file); err != nil {
		u.log.Debug().Err(err).Msg("what the upstream has is not kept: the next runnel has to start it " +
			"for its lists")
	}
}

// enter keeps the server while do makes a request. It waits for the server, and starts it if that has not
// happened, since its tools may be known from the last time. If the server did not take the request, since it
// no longer knows the session (it was restarted, say), do is called again, once, with a new session. enter
// returns the connection, nil if there is none.
func (s *Set) enter(ctx context.Context, u *Server, do func(*link) (ran bool, err error)) (*link, error) {
	if !u.busy.TryRLock() {
		return nil, u.failure(errors.New("it was taken out of the config"))
	}
	defer u.busy.RUnlock()
	s.start(u)
	var before *link
	for {
		l, err := u.connected(ctx, before)
		if err != nil {
			return nil, err
		}
		select {
		case <-l.ready.Done():
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		ran, err := do(l)
		if wire, ok := errors.AsType[*rpc.Error](err); ran || before != nil || !ok ||
			wire.Code != mcp.CodeSessionEnded {
			return l, err
		}
		u.log.Info().Msg("the upstream no longer knows the session: the request is sent again in a new one")
		before = l
	}
}

// learn changes a server's catalog and returns it; a nil change means that the server will not be back. told:
// the server has just said so itself.
func (s *Set) learn(u *Server, told bool, change func(*catalog)) *catalog {
	s.mu.Lock()
	// It has been taken out of the config, or has been faster.
	if !slices.Contains(s.servers, u) || u.told && !told {
		s.mu.Unlock()
		return nil
	}
	var next *catalog
	var list []tools.Tool
	if change != nil {
		next = u.catalog.copy()
		change(next)
		shown := map[string]bool{}
		for _, spec := range next.specs {
			name := u.shownName(spec.Name, shown)
			shown[name] = true
			list = append(list, &servedTool{set: s, u: u, spec: spec, name: name})
		}
	}
	u.tools, u.catalog = list, next
	u.told, u.recalled = u.told || told, u.recalled || !told
	changed := s.join(s.Tools)
	s.mu.Unlock()
	s.tell(changed)
	return next
}

// join makes the lists from those of the servers, and puts the servers' tools into a registry. It returns the
// broadcasts of the lists in which clients see a difference. s.mu is held.
func (s *Set) join(registry *tools.Registry) (changed []*signal.Broadcast) {
	before := s.lists
	s.lists = joinLists(s.servers)
	var list []tools.Tool
	for _, u := range s.servers {
		list = append(list, u.tools...)
	}
	newTools, leftOut := registry.Join(append(list, s.lent...))
	for _, t := range leftOut {
		served, ok := t.(*servedTool)
		if !ok {
			continue
		}
		u := served.u
		if name := t.Describe().Name; !u.clashes[name] {
			u.clashes[name] = true
			u.log.Warn().Str("tool", name).
				Msg("a tool of an upstream is left out: there is another one of its name; give the " +
					"upstream a prefix")
		}
	}
	if newTools {
		changed = append(changed, registry.Changes())
	}
	if s.lists.differs(promptList, before) {
		changed = append(changed, &s.promptChanges)
	}
	if s.lists.differs(resourceList, before) || s.lists.differs(templateList, before) {
		changed = append(changed, &s.resourceChanges)
	}
	return changed
}

// tell announces which lists have changed, if anybody has seen one.
func (s *Set) tell(changed []*signal.Broadcast) {
	for _, b := range changed {
		if s.shown.Load() {
			b.Send()
		}
	}
}

// Whole reports whether the lists of all servers are known.
func (s *Set) Whole() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return !slices.ContainsFunc(s.servers, func(u *Server) bool {
		return !u.told || slices.ContainsFunc(listKinds,
			func(kind *listKind) bool { return !u.answered[kind.method].IsSet() })
	})
}

// Replace replaces the tools and the servers by those of another set. Unchanged servers go on; the others end
// after their last call. Clients that listen are notified if they can see a difference. A client that
// subscribed to a resource of a server that ends is notified that the resource has changed: it may be gone,
// or belong to the next server with that name.
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
	changed := s.join(with.Tools)
	told := s.Tools.Replace(with.Tools)
	// A new server starts when clients ask for the list, as they do after a notification.
	if !slices.Equal(before, next) {
		changed = []*signal.Broadcast{&s.promptChanges, &s.resourceChanges}
		if !told {
			changed = append(changed, s.Tools.Changes())
		}
	}
	s.mu.Unlock()
	for _, b := range changed {
		b.Send()
	}
	for _, old := range before {
		if slices.Contains(next, old) || !old.subs.tellAll() {
			continue
		}
		if i := slices.IndexFunc(next, func(u *Server) bool { return u.name == old.name }); i >= 0 {
			s.start(next[i]) // it renews the subscriptions
		}
	}
}

// Came records how many runnels a client's request has passed. It returns an error if the client must not be
// served.
func (s *Set) Came(hops int) error {
	if hops > maxHops {
		return fmt.Errorf("%s: a url among their upstreams leads back to where it is used", tooManyHops(hops))
	}
	s.session.hops.came(hops)
	return nil
}

// preparation returns how long the answer to initialize waits for the wrapped server.
func (s *Set) preparation() (limit time.Duration) {
	for _, u := range s.all() {
		limit = max(limit, u.times.prepare)
	}
	return limit
}
