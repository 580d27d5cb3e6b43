package serve

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"

	httpserver "runnel/rpc/http"
	"runnel/tasks/sqlite"
)

// frontOptions returns the options of the HTTP server that flags and their files decide.
func (s *Setup) frontOptions(log zerolog.Logger) (o httpserver.Options, err error) {
	flags := &s.Options.http
	o.Origins, o.Proxies, o.Log = flags.origins, flags.proxies, log
	var errs [3]error
	o.Tokens, errs[0] = flags.tokens(log)
	o.Authority, errs[1] = flags.authority(log)
	o.Certificate, errs[2] = flags.keyPair(log)
	return o, errors.Join(errs[:]...)
}

// serveHTTP begins to serve over HTTP; m may be nil. stop ends the requests and their tasks; end sends what is still queued and closes.
func (s *Setup) serveHTTP(ctx context.Context, m *metrics, log zerolog.Logger) (stop, end func(), err error) {
	all, o := s.owners, s.front
	o.Serves, o.CheckHops, o.Owner = all.serves, all.came, all.began.Server.Owner
	o.MaxLine, o.MaxInFlight, o.Drain = int(all.began.Limits.MaxLine), all.began.Limits.MaxInFlight, max(0, time.Duration(all.began.Limits.Drain))
	if state, ok := all.store.(*sqlite.State); ok {
		o.Ended = filepath.Join(state.Dir(), "sessions-ended")
	}
	if s.view != nil {
		if err := s.view.admits(&o, log); err != nil {
			return nil, nil, err
		}
	}
	front, err := httpserver.Listen(ctx, s.Options.http.address, o)
	if err != nil {
		return nil, nil, fmt.Errorf("--http: %w", err)
	}
	all.busy = front.Busy
	if m != nil {
		m.watch(front.Open)
	}
	log.Info().Str("address", front.Addr().String()).Bool("tls", o.Certificate != nil).Bool("tokens", o.Tokens != nil || o.Authority != nil).Msg("serving HTTP")
	go func() {
		if err := front.Serve(); err != nil {
			log.Error().Err(err).Msg("serving HTTP")
		}
	}()
	if s.view != nil {
		s.view.listening(front.Addr().String())
	}
	return func() { front.Stop(); all.stop() }, func() { front.Close(); all.close() }, nil
}
