package serve

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"runnel/internal/metrics"
	"runnel/internal/oauth"
	"runnel/internal/system"
	httpserver "runnel/rpc/http"
	"runnel/tasks"
	"runnel/tools/config"
)

// frontOptions returns the options of the HTTP server that the config and its files decide.
func (s *Setup) frontOptions(conf *config.Config, log zerolog.Logger) (o httpserver.Options, err error) {
	h := conf.HTTP
	o.Origins, o.Log = h.Origins, log
	for _, proxy := range h.TrustedProxies {
		o.Proxies = append(o.Proxies, proxy.Prefix)
	}
	for key, path := range map[string]*string{"http.tokenFile": &h.TokenFile, "http.cert": &h.Cert,
		"http.key": &h.Key} {
		if *path, err = conf.Path(key, s.Getenv); err != nil {
			return o, &UsageError{Err: err}
		}
	}
	var errs [3]error
	o.Tokens, errs[0] = tokens(h.TokenFile, log)
	o.Authority, errs[1] = authority(&h, log)
	o.Certificate, errs[2] = keyPair(h.Cert, h.Key, log)
	for i, key := range []string{"tokenFile", "issuer", "cert"} {
		if errs[i] != nil {
			errs[i] = &UsageError{Err: conf.Locate("http."+key, errs[i])}
		}
	}
	return o, errors.Join(errs[:]...)
}

// serveHTTP begins to serve over HTTP; m may be nil. stop ends the requests and their tasks; end sends what
// is still queued and closes.
func (s *Setup) serveHTTP(ctx context.Context, m *metrics.Metrics,
	log zerolog.Logger) (stop, end func(), err error) {
	all, o := s.owners, s.front
	o.Serves = all.serves
	o.CheckHops = all.came
	o.Owner = all.began.Server.Owner
	o.MaxLine = int(all.began.Limits.MaxLine)
	o.MaxInFlight = all.began.Limits.MaxInFlight
	o.Drain = max(0, time.Duration(all.began.Limits.Drain))
	if !inMemory(all.store) {
		o.Sessions = func(owner string) httpserver.Sessions { return all.store.Open(owner).(tasks.Sessions) }
	}
	o.Advertise = string(all.began.HTTP.Advertise)
	if s.view != nil {
		if err := s.view.admits(&o, log); err != nil {
			return nil, nil, err
		}
	}
	front, err := httpserver.Listen(ctx, string(all.began.HTTP.Addr), o)
	if err != nil {
		return nil, nil, all.began.Locate("http.addr", err)
	}
	all.busy = front.Busy
	if m != nil {
		m.WatchHTTP(front.Open)
	}
	log.Info().Str("address", front.Addr().String()).Bool("tls", o.Certificate != nil).
		Bool("tokens", o.Tokens != nil || o.Authority != nil).Msg("serving HTTP")
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

// maxTokenFile limits the token file, in bytes.
const maxTokenFile = 1 << 20

// tokens reads the token file, nil if there is none.
func tokens(file string, log zerolog.Logger) (*httpserver.Fresh[*httpserver.Tokens], error) {
	if file == "" {
		return nil, nil
	}
	if info, err := os.Stat(file); err == nil {
		if _, readable := system.ReadableByOthers(file, info); readable {
			log.Warn().Str("file", file).Msg("other users can read the tokens: " + system.KeepPrivate +
				" keeps them yours")
		}
	}
	text, err := system.ReadNamed(file, maxTokenFile) // it may be a pipe, which can be read once
	started := false
	tokens, err := httpserver.NewFresh(log, func() (*httpserver.Tokens, error) {
		if started {
			text, _, err = system.ReadRegular(file, maxTokenFile)
		}
		if err != nil && (!started || !errors.Is(err, fs.ErrNotExist)) {
			return nil, err
		}
		tokens, err := httpserver.ReadTokens(bytes.NewReader(text))
		// The last token was taken out, or the file: that is what their owner wants.
		if started && errors.Is(err, httpserver.ErrNoTokens) {
			log.Warn().Str("file", file).Msg("there is no token in the token file any more: no client " +
				"with a token of it is admitted")
			err = nil
		}
		return tokens, err
	}, file)
	if err != nil {
		return nil, err
	}
	started = true
	return tokens, nil
}

// authority returns the issuer of access tokens, nil if there is none.
func authority(h *config.HTTP, log zerolog.Logger) (*httpserver.Authority, error) {
	if h.Issuer == "" {
		return nil, nil
	}
	issuer, err := oauth.New(oauth.Options{Issuer: h.Issuer, Audience: h.Audience, Scopes: h.Scopes,
		Owner: h.OwnerClaim, Log: log})
	if err != nil {
		return nil, err
	}
	a := &httpserver.Authority{Issuer: issuer, URL: h.Issuer, Scopes: h.Scopes}
	if u, err := url.Parse(h.Audience); err == nil && u.Host != "" &&
		(u.Scheme == "https" || u.Scheme == "http") {
		a.Resource = h.Audience
	}
	return a, nil
}

// keyPair reads the certificate and its key, nil if there is none.
func keyPair(certificate, key string, log zerolog.Logger) (*httpserver.Fresh[*tls.Certificate], error) {
	if certificate == "" {
		return nil, nil
	}
	pair, err := httpserver.NewFresh(log, func() (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(certificate, key)
		return &pair, err
	}, certificate, key)
	if err != nil {
		return nil, err
	}
	return pair, nil
}

// LoopbackFlag adds a flag for an address that only this machine reaches.
func LoopbackFlag(flags *pflag.FlagSet, to *config.Address, name, usage string) {
	flags.Func(name, usage, func(text string) error {
		err := to.UnmarshalText([]byte(text))
		if err == nil && !to.Loopback() {
			err = config.Wrong("an address of this machine alone, such as 127.0.0.1:8080",
				"%q can be reached by other machines", text)
		}
		return err
	})
	flags.Lookup(name).DefValue = string(*to)
}

// readiness says to balancers and to those that start processes whether this one can be sent calls: its state
// answers and, for a worker, it takes calls.
type readiness struct {
	store tasks.Store
	takes func() int // how many tasks a worker runs at once; nil = this is not a worker
	log   zerolog.Logger

	mu  sync.Mutex // held while the state is asked, on behalf of all
	at  time.Time
	err error
}

const (
	// readyWait is how long the state may take to answer.
	readyWait = 2 * time.Second
	// readyPace is how long an answer counts: anyone may ask, as often as they like.
	readyPace = time.Second
)

// ready returns nil, or an error that anyone may read.
func (r *readiness) ready(ctx context.Context) error {
	if r.takes != nil && r.takes() == 0 {
		return errors.New("this worker takes no more calls")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.at) < readyPace {
		return r.err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readyWait)
	defer cancel()
	_, _, err := r.store.List(ctx, tasks.OldestFirst, "", 1)
	// Servers without a majority answer, and store nothing.
	if shared, ok := r.store.(tasks.Shared); ok && err == nil {
		err = shared.Lapsed()
	}
	if r.at, r.err = time.Now(), nil; err != nil {
		r.err = errors.New("the state does not answer")
		r.log.Warn().Err(err).Msg("not ready: the state does not answer")
	}
	return r.err
}
