package serve

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	httpserver "runnel/rpc/http"
	"runnel/tasks"
	"runnel/tools/config"
	"runnel/tools/upstream"
)

// maxOwners is how many owners are served at once: each has tools and upstreams of its own. For a new one, the idle one that has not come for
// longest goes.
const maxOwners = 1000

// owners are the servers of those who come over HTTP: the config's owner has its own already, each other one's is made when it comes.
type owners struct {
	setup    *Setup
	began    *config.Config // as it was when runnel began
	store    tasks.State
	observer tasks.Observer
	log      zerolog.Logger

	mu      sync.Mutex
	latest  *config.Config // as it was read last: the tools of the next owner are made from it
	own     served
	others  map[string]served
	used    map[string]time.Time   // when the others came last
	busy    func() map[string]bool // owners that have sessions or requests
	dropped sync.WaitGroup         // those that are being ended
	stopped bool
}

// serves returns what serves an owner over HTTP.
func (o *owners) serves(owner string) (httpserver.Served, error) {
	if owner == o.began.Server.Owner {
		return o.own.overHTTP(), nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	s, ok := o.others[owner]
	switch {
	case ok:
		o.used[owner] = time.Now()
		return s.overHTTP(), nil
	case o.stopped:
		return httpserver.Served{}, errors.New("the server is shutting down")
	case len(o.others) >= maxOwners && !o.drop():
		return httpserver.Served{}, errors.New("too many owners are served: try again when one has ended its sessions and tasks")
	}
	set, _, err := o.setup.registry(o.latest, false)
	if err != nil {
		o.log.Error().Err(err).Str("owner", owner).Msg("making the tools of an owner")
		return httpserver.Served{}, errors.New("the server's config is wrong: its log says where")
	}
	theirs := *o.began
	theirs.Server.Owner = owner
	s = o.setup.server(&theirs, set, o.store, o.observer, o.log)
	o.others[owner] = s
	o.used[owner] = time.Now()
	return s.overHTTP(), nil
}

// came takes note that so many runnels stand before an owner's server, if there is one.
func (o *owners) came(owner string, hops int) error {
	o.mu.Lock()
	s, ok := o.others[owner]
	o.mu.Unlock()
	switch {
	case owner == o.began.Server.Owner:
		return o.own.tools.Came(hops)
	case ok:
		return s.tools.Came(hops)
	}
	return nil
}

// drop ends what serves an owner that has neither sessions nor tasks, if there is one; it is made again when the owner comes back. mu is held:
// a request of the owner that comes meanwhile waits in serves.
func (o *owners) drop() bool {
	busy, oldest := o.busy(), ""
	for owner, s := range o.others {
		if !busy[owner] && s.idle() && (oldest == "" || o.used[owner].Before(o.used[oldest])) {
			oldest = owner
		}
	}
	s, ok := o.others[oldest]
	if !ok {
		return false
	}
	delete(o.others, oldest)
	delete(o.used, oldest)
	o.dropped.Go(func() { s.stop(); s.tools.Close() })
	return true
}

// overHTTP is what serves its owner's requests over HTTP.
func (s served) overHTTP() httpserver.Served {
	return httpserver.Served{Server: s.Server, InputSchema: func(ctx context.Context, tool string) []byte {
		s.tools.NeedTool(ctx, tool)
		if t := s.tools.Tools.Lookup(tool); t != nil {
			return t.Describe().InputSchema
		}
		return nil
	}}
}

// end lets nobody new in, and returns the servers there are beside the config's owner's.
func (o *owners) end() []served {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stopped = true
	return slices.Collect(maps.Values(o.others))
}

// stop ends the tasks of all owners.
func (o *owners) stop() {
	var all sync.WaitGroup
	for _, s := range o.end() {
		all.Go(s.stop)
	}
	o.own.stop()
	all.Wait()
	o.dropped.Wait()
}

// close ends the upstreams of the others.
func (o *owners) close() {
	for _, s := range o.end() {
		s.tools.Close()
	}
}

// replaceTools gives all owners the tools of a config, and warns of it. It returns how many those are.
func (s *Setup) replaceTools(own *upstream.Set, conf *config.Config, log zerolog.Logger) (count int, err error) {
	sets := []*upstream.Set{own}
	if o := s.owners; o != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		for _, other := range o.others {
			sets = append(sets, other.tools)
		}
	}
	next := make([]*upstream.Set, len(sets))
	for i := range sets {
		if next[i], count, err = s.Registry(conf); err != nil {
			return 0, err
		}
	}
	for i, set := range sets {
		set.Replace(next[i])
	}
	if s.owners != nil {
		s.owners.latest = conf
	}
	s.warnOf(conf, log) // under mu: the registry of an owner who comes notes again what has no value
	return count, nil
}
