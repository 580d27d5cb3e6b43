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
	"runnel/tasks/files"
	"runnel/tasks/run"
	"runnel/tools/config"
	"runnel/tools/upstream"
)

// maxOwners is how many owners are served at once: each has separate tools and upstreams. A new owner takes
// the place of the idle one that has been away longest.
const maxOwners = 1000

// owners holds the servers of the owners that come over HTTP. The config's owner has one from the start; the
// others get theirs when they first come.
type owners struct {
	setup    *Setup
	began    *config.Config // the config at the start
	store    tasks.State
	observer run.Observer
	log      zerolog.Logger

	mu       sync.Mutex
	latest   *config.Config // the last one read, from which the next owner's tools are made
	own      served
	others   map[string]served
	lastCame map[string]time.Time   // when each of the others last came
	busy     func() map[string]bool // owners that have sessions or requests
	dropped  sync.WaitGroup         // servers that are being ended
	stopped  bool
}

// serves returns the server of an owner, and makes it if necessary.
func (o *owners) serves(owner string) (httpserver.Served, error) {
	if owner == o.began.Server.Owner {
		return o.own.overHTTP(), nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	s, ok := o.others[owner]
	switch {
	case ok:
		o.lastCame[owner] = time.Now()
		return s.overHTTP(), nil
	case o.stopped:
		return httpserver.Served{}, errors.New("the server is shutting down")
	case len(o.others) >= maxOwners && !o.drop():
		return httpserver.Served{}, errors.New("too many owners are served: try again when one has ended " +
			"its sessions and tasks")
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
	o.lastCame[owner] = time.Now()
	return s.overHTTP(), nil
}

// maxWatched bounds the owners that a scrape of the metrics asks the state about, with two requests each.
const maxWatched = 100

// watched returns the owners whose fleet the metrics show: those that a client may come for, whether one has
// come or not, so that what waits is shown also where no worker shows it.
func (s *Setup) watched(conf *config.Config) (list []string) {
	if s.owners != nil {
		s.owners.mu.Lock()
		list = slices.Collect(maps.Keys(s.owners.others))
		s.owners.mu.Unlock()
		if s.front.Tokens != nil {
			list = append(list, s.front.Tokens.Get().Owners()...)
		}
	}
	if len(list) == 0 || !conf.HTTP.NoStdio {
		list = append(list, conf.Server.Owner)
	}
	slices.Sort(list)
	list = slices.Compact(list)
	return list[:min(len(list), maxWatched)]
}

// came records how many runnels a request to an owner has passed, if the owner has a server.
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

// drop ends the server of an owner without sessions and tasks, if there is one. The server is made again when
// the owner comes back. mu is held, so that a request of that owner waits in serves meanwhile.
func (o *owners) drop() bool {
	busy, oldest := o.busy(), ""
	for owner, s := range o.others {
		if !busy[owner] && s.idle() && (oldest == "" || o.lastCame[owner].Before(o.lastCame[oldest])) {
			oldest = owner
		}
	}
	s, ok := o.others[oldest]
	if !ok {
		return false
	}
	delete(o.others, oldest)
	delete(o.lastCame, oldest)
	o.dropped.Go(func() { s.stop(); s.tools.Close() })
	return true
}

// overHTTP returns the server as rpc/http needs it.
func (s served) overHTTP() httpserver.Served {
	return httpserver.Served{Server: s.Server, InputSchema: func(ctx context.Context, tool string) []byte {
		s.tools.NeedTool(ctx, nil, tool)
		if t := s.tools.Tools.Lookup(tool); t != nil {
			return t.Describe().InputSchema
		}
		return nil
	}, File: func(ctx context.Context, task, name string) (*httpserver.File, error) {
		set, err := s.files(ctx, task)
		var f files.File
		if err == nil {
			f, err = set.Find(name)
		}
		switch {
		case errors.Is(err, tasks.ErrNotFound):
			return nil, nil //nolint:nilnil // that is how it says so
		case err != nil:
			return nil, err
		}
		return &httpserver.File{Name: f.Name, MIMEType: f.MIMEType, SHA256: f.SHA256,
			Content: set.Reader(ctx, f)}, nil
	}}
}

// end admits no more owners, and returns the servers of all but the config's owner.
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

// replaceTools gives all owners the tools of a config, and logs the config's warnings. count is the number of
// tools.
func (s *Setup) replaceTools(own *upstream.Set, conf *config.Config,
	log zerolog.Logger) (count int, err error) {
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
	s.warnings(conf, log) // under mu, since making a registry for another owner sets Unset again
	return count, nil
}
