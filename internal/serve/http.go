package serve

import (
	"context"
	"fmt"
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

// readTokens reads who may come in, and makes the tools of those who come over HTTP only.
func (s *Setup) readTokens(conf *config.Config, log zerolog.Logger) (err error) {
	if s.Options.http.tokenFile == "" {
		return nil
	}
	if s.tokens, err = s.Options.http.tokens(log); err != nil {
		return err
	}
	s.others = map[string]*upstream.Set{}
	for _, owner := range s.tokens.Owners() {
		if owner == conf.Server.Owner {
			continue
		}
		if s.others[owner], _, err = s.registry(conf, false); err != nil {
			return err
		}
	}
	return nil
}

// serveHTTP begins to serve over HTTP: the owner of the config by its own server, each other one by a server with tools and upstreams
// of its own. stop ends the requests, and what they have begun; end sends what is left to say.
func (s *Setup) serveHTTP(ctx context.Context, own served, conf *config.Config, store tasks.State, observer tasks.Observer, log zerolog.Logger) (stop, end func(), err error) {
	o := httpserver.Options{Servers: map[string]httpserver.Served{conf.Server.Owner: own.overHTTP()}, Tokens: s.tokens, Owner: conf.Server.Owner,
		Origins: s.Options.http.origins, MaxLine: int(conf.Limits.MaxLine), MaxInFlight: conf.Limits.MaxInFlight, Drain: max(0, time.Duration(conf.Limits.Drain)), Log: log}
	var others []served
	for owner, set := range s.others {
		theirs := *conf
		theirs.Server.Owner = owner
		server := s.server(&theirs, set, store, observer, log)
		o.Servers[owner] = server.overHTTP()
		others = append(others, server)
	}
	front, err := httpserver.Listen(ctx, s.Options.http.address, o)
	if err != nil {
		return nil, nil, fmt.Errorf("--http: %w", err)
	}
	log.Info().Str("address", front.Addr().String()).Bool("tokens", s.tokens != nil).Msg("serving HTTP")
	go func() {
		if err := front.Serve(); err != nil {
			log.Error().Err(err).Msg("serving HTTP")
		}
	}()
	return func() {
			front.Stop()
			var all sync.WaitGroup
			for _, other := range others {
				all.Go(other.stop)
			}
			own.stop()
			all.Wait()
		}, func() {
			front.Close()
			for _, set := range s.others {
				set.Close()
			}
		}, nil
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

// sets are the tools of all owners.
func (s *Setup) sets(own *upstream.Set) []*upstream.Set {
	return append(slices.Collect(maps.Values(s.others)), own)
}
