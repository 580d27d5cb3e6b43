package serve

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/rs/zerolog"

	httpserver "runnel/rpc/http"
	"runnel/tasks"
	"runnel/tools/config"
	"runnel/tools/upstream"
)

// maxOwners is how many owners are served: each has tools and upstreams of its own.
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
		return s.overHTTP(), nil
	case o.stopped:
		return httpserver.Served{}, errors.New("the server is shutting down")
	case len(o.others) >= maxOwners:
		return httpserver.Served{}, errors.New("too many owners are served: that lasts until the server is started again")
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
	return s.overHTTP(), nil
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
}

// close ends the upstreams of the others.
func (o *owners) close() {
	for _, s := range o.end() {
		s.tools.Close()
	}
}

// replaceTools gives all owners the tools of a config. It returns how many those are.
func (s *Setup) replaceTools(own *upstream.Set, conf *config.Config) (count int, err error) {
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
	return count, nil
}
