package serve

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"runnel/rpc"
	httpserver "runnel/rpc/http"
	"runnel/tasks"
	"runnel/tools/config"
	"runnel/tools/upstream"
)

// httpOptions say who may come in over HTTP, beside the client on stdin and stdout.
type httpOptions struct {
	address, tokenFile string // "" = none
	origins            []string
	insecure, noStdio  bool
}

func (o *httpOptions) register(flags *pflag.FlagSet) {
	flags.Func("http", "serve MCP over HTTP, too, at `ADDR`, path /mcp; :PORT = for this machine only", func(text string) (err error) {
		o.address, err = listenAddress(text)
		return err
	})
	flags.StringVar(&o.tokenFile, "http-token-file", "", "over HTTP, let in who has a token of `FILE`, one \"TOKEN OWNER\" a line, and see the tasks of its owner")
	flags.StringArrayVar(&o.origins, "http-origin", nil, "let web pages of `ORIGIN` use the HTTP server, such as https://example.com; repeatable")
	flags.BoolVar(&o.insecure, "http-insecure", false, "listen beyond this machine without tokens: everybody who reaches it can run the tools")
	flags.BoolVar(&o.noStdio, "no-stdio", false, "serve HTTP alone, until a signal")
}

// check finds what does not go together.
func (o *httpOptions) check() error {
	switch {
	case o.address == "" && o.noStdio:
		return &UsageError{Err: errors.New("--no-stdio leaves nothing to serve: name an address with --http")}
	case o.address == "" && (o.tokenFile != "" || o.insecure || len(o.origins) > 0):
		return &UsageError{Err: errors.New("--http-token-file, --http-origin and --http-insecure need an address: name one with --http")}
	case o.address != "" && o.tokenFile == "" && !o.insecure && !httpserver.Loopback(o.address):
		return &UsageError{Err: fmt.Errorf("--http %s can be reached by other machines: say who may come in with --http-token-file, or that everybody may with --http-insecure", o.address)}
	}
	return nil
}

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

func (o *httpOptions) tokens(log zerolog.Logger) (*httpserver.Tokens, error) {
	f, err := os.Open(o.tokenFile)
	if err != nil {
		return nil, &UsageError{Err: fmt.Errorf("--http-token-file: %w", err)}
	}
	defer func() { _ = f.Close() }() // it was only read
	if info, err := f.Stat(); err == nil && info.Mode().Perm()&0o077 != 0 {
		log.Warn().Str("file", o.tokenFile).Msg("other users can read the tokens: chmod 600 keeps them yours")
	}
	tokens, err := httpserver.ReadTokens(f)
	if err != nil {
		return nil, &UsageError{Err: fmt.Errorf("%s: %w", o.tokenFile, err)}
	}
	return tokens, nil
}

// served is a server for one owner.
type served struct {
	*rpc.Server
	stop func() // ends its tasks
}

// serveHTTP begins to serve over HTTP: the owner of the config by its own server, each other one by a server with tools and upstreams
// of its own. stop ends the requests, and what they have begun; end sends what is left to say.
func (s *Setup) serveHTTP(ctx context.Context, own served, conf *config.Config, store tasks.State, observer tasks.Observer, log zerolog.Logger) (stop, end func(), err error) {
	o := httpserver.Options{Servers: map[string]*rpc.Server{conf.Server.Owner: own.Server}, Tokens: s.tokens, Owner: conf.Server.Owner,
		Origins: s.Options.http.origins, MaxLine: int(conf.Limits.MaxLine), MaxInFlight: conf.Limits.MaxInFlight, Drain: max(0, time.Duration(conf.Limits.Drain)), Log: log}
	var others []served
	for owner, set := range s.others {
		theirs := *conf
		theirs.Server.Owner = owner
		server := s.server(&theirs, set, store, observer, log)
		o.Servers[owner] = server.Server
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

// sets are the tools of all owners.
func (s *Setup) sets(own *upstream.Set) []*upstream.Set {
	return append(slices.Collect(maps.Values(s.others)), own)
}
