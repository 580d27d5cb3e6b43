package nats

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"runnel/tasks"
)

// Options of a State.
type Options struct {
	Servers  string // as nats.Connect takes them: nats://host:4222,host:4222 or tls://...
	Prefix   string // of streams and subjects; "" = runnel
	Replicas int    // of a stream that is made; 0 = 1
	// Credentials is a file of NATS credentials (.creds), "" = none.
	Credentials string
	// RootCA is a file with the certificates that the servers' are checked with, "" = the system's.
	RootCA   string
	MaxState int64        // bytes of a stream that is made; 0 = no limit but the server's
	Limits   tasks.Limits // for each owner, over all processes
	Calls    bool         // finds calls without a handle that run, too: for people, never for clients
	Log      zerolog.Logger

	Now func() time.Time // nil = time.Now
}

// Parse makes Options of a URL: nats://HOST[:PORT][,HOST...][?prefix=P&replicas=N&creds=FILE&ca=FILE], or tls://. Credentials are never part of it:
// they come from a file, that of creds or of the environment variable RUNNEL_NATS_CREDS.
func Parse(state string, getenv func(string) string) (Options, error) {
	u, err := url.Parse(state)
	if err != nil {
		return Options{}, errors.New("the state is not a URL such as nats://host:4222?prefix=runnel") // the error would show what may be a password
	}
	o := Options{Servers: u.Scheme + "://" + u.Host, Credentials: getenv("RUNNEL_NATS_CREDS")}
	switch {
	case u.Scheme != "nats" && u.Scheme != "tls":
		return o, fmt.Errorf("the state has the scheme %s: use nats:// or tls://", u.Scheme)
	case u.User != nil:
		return o, errors.New("the URL of a state holds no password: put credentials in a file, and name it with ?creds=FILE or RUNNEL_NATS_CREDS")
	case u.Host == "" || u.Path != "" && u.Path != "/":
		return o, errors.New("the URL of the state names no server: nats://host:4222?prefix=runnel")
	}
	for name, values := range u.Query() {
		value := values[0]
		switch name {
		case "prefix":
			o.Prefix = value
		case "replicas":
			if o.Replicas, err = strconv.Atoi(value); err != nil || o.Replicas < 1 || o.Replicas > 5 {
				return o, fmt.Errorf("replicas=%s: use 1 to 5", value)
			}
		case "creds":
			o.Credentials = value
		case "ca":
			o.RootCA = value
		default:
			return o, fmt.Errorf("the URL of the state has the option %q: known are prefix, replicas, creds and ca", name)
		}
	}
	if o.Prefix != "" && !isToken(o.Prefix) {
		return o, fmt.Errorf("prefix=%s: use up to 64 letters, digits, - and _", o.Prefix)
	}
	return o, nil
}

// isToken reports whether a text may be part of a subject and of a stream's name as it is.
func isToken(s string) bool {
	other := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
	}
	return s != "" && len(s) <= 64 && !strings.ContainsFunc(s, other)
}

// State is a tasks.State in JetStream. It connects with the first use, so that a process that only answers a probe opens no connection.
type State struct {
	o      Options
	keeper string // the name of this process

	turn    atomic.Uint64 // whose tasks Next looks for first
	garbage atomic.Int64  // offers that nothing could be made of

	mu     sync.Mutex
	nc     *nats.Conn // nil until the first use
	js     jetstream.JetStream
	spaces map[string]*space // by owner
	closed bool
	// refused is why nothing could be connected to last.
	refused   error
	refusedAt time.Time
	heed      chan struct{} // somebody asks, or a task was fenced: one for each who waits in Heed, as far as there is room
	heeding   atomic.Int64  // how many do
}

// New returns a state. It connects to nothing yet.
func New(o Options) *State {
	if o.Prefix == "" {
		o.Prefix = "runnel"
	}
	if o.Replicas <= 0 {
		o.Replicas = 1
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &State{o: o, keeper: uuid.NewString(), spaces: map[string]*space{}, heed: make(chan struct{}, mostHeeding)}
}

const (
	connectTimeout = 5 * time.Second
	refusalTime    = time.Second            // is how long servers that could not be reached are not tried again
	reconnectWait  = 250 * time.Millisecond // then more, up to some seconds, with many servers
	// pingInterval and mostPings are how soon a server is left that does not answer any more, while the connection to it stays: well before
	// the lease of this process runs out there.
	pingInterval = 2 * time.Second
	mostPings    = 2
	// writeTimeout is how long a write waits for the servers, an election among them, before it is refused with tasks.ErrBusy.
	writeTimeout = 10 * time.Second
	// writeAgain is when a write is tried again that nobody has acknowledged.
	writeAgain = 100 * time.Millisecond
	ackTimeout = 2 * time.Second
)

// connect returns the connection. s.mu is held.
func (s *State) connect() error {
	if s.nc != nil {
		return nil
	}
	options := []nats.Option{
		nats.Name("runnel " + s.keeper), nats.Timeout(connectTimeout), nats.MaxReconnects(-1), nats.ReconnectWait(reconnectWait),
		nats.PingInterval(pingInterval), nats.MaxPingsOutstanding(mostPings),
		nats.IgnoreAuthErrorAbort(), // credentials are renewed
		nats.ReconnectBufSize(-1),   // what cannot be sent is tried again by who sends it, in order
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			s.o.Log.Warn().Err(err).Msg("the connection to NATS")
		}),
	}
	if s.o.Credentials != "" {
		if _, err := os.Stat(s.o.Credentials); err != nil {
			return tasks.Trouble{Err: fmt.Errorf("the credentials of the state: %w", err)}
		}
		options = append(options, nats.UserCredentials(s.o.Credentials))
	}
	if s.o.RootCA != "" {
		options = append(options, nats.RootCAs(s.o.RootCA))
	}
	if time.Since(s.refusedAt) < refusalTime { // who has waited for s.mu meanwhile does not wait for the servers, too
		return s.refused
	}
	nc, err := nats.Connect(s.o.Servers, options...)
	if err != nil {
		s.refused, s.refusedAt = tasks.Trouble{Err: fmt.Errorf("connecting to the state at %s: %w", s.o.Servers, err)}, time.Now()
		return s.refused
	}
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(ackTimeout))
	if err != nil {
		nc.Close()
		return err
	}
	s.nc, s.js = nc, js
	return nil
}

// space returns an owner's stream, which is made if there is none.
func (s *State) space(ctx context.Context, owner string) (*space, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, errors.New("the state is closed")
	case s.spaces[owner] != nil:
		return s.spaces[owner], nil
	}
	if err := s.connect(); err != nil {
		return nil, err
	}
	sp, err := s.openSpace(ctx, owner)
	if err != nil {
		return nil, tasks.Trouble{Err: fmt.Errorf("opening the state at %s: %w", s.o.Servers, err)}
	}
	s.spaces[owner] = sp
	return sp, nil
}

// Close lets go of the state. Everything has been written that Put has returned for.
func (s *State) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, sp := range s.spaces {
		sp.close()
	}
	if s.nc != nil {
		s.nc.Close()
	}
	return nil
}

// mostHeeding is more than the owners that a process serves, each of whom has a runner.
const mostHeeding = 2000

// notice wakes all who wait in Heed, or the next one.
func (s *State) notice() {
	for range max(s.heeding.Load(), 1) {
		select {
		case s.heed <- struct{}{}:
		default:
		}
	}
}
