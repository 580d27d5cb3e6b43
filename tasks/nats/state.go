package nats

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"runnel/tasks"
	"runnel/tasks/engine"
)

// Options of a State.
type Options struct {
	Servers  string // as nats.Connect takes them: nats://host:4222,host:4222 or tls://...
	Prefix   string // of streams and subjects; "" = runnel
	Replicas int    // of a stream that is made; 0 = 1
	// Credentials is a file of NATS credentials (.creds), "" = none.
	Credentials string
	// RootCA is a file with the certificates that sign the servers', "" = the system's.
	RootCA string
	// MaxBytes limits an owner's tasks; 0 = half of what the account may store, 10 GiB if that is not
	// limited.
	MaxBytes int64
	engine.Options
}

// Parse makes Options of a URL:
// nats://HOST[:PORT][,HOST...][?prefix=P&replicas=N&maxBytes=SIZE&creds=FILE&ca=FILE], or tls://. Credentials
// are never part of it: they come from a file, which creds or the environment variable RUNNEL_NATS_CREDS
// names.
func Parse(state string, getenv func(string) string) (Options, error) {
	o := Options{Credentials: getenv("RUNNEL_NATS_CREDS")}
	replicas, maxBytes := "1", ""
	form := engine.URLForm{
		Schemes: []string{"nats", "tls"}, Example: "nats://host:4222?prefix=runnel",
		Secrets: "put credentials in a file, and name it with ?creds=FILE or RUNNEL_NATS_CREDS",
		Options: map[string]*string{"prefix": &o.Prefix, "replicas": &replicas, "maxBytes": &maxBytes,
			"creds": &o.Credentials, "ca": &o.RootCA},
	}
	u, err := form.Parse(state)
	if err != nil {
		return o, err
	}
	if u.Host == "" || u.Path != "" && u.Path != "/" {
		return o, errors.New("the URL of the state names no server: use one such as " + form.Example)
	}
	o.Servers = u.Scheme + "://" + u.Host
	if o.Replicas, err = strconv.Atoi(replicas); err != nil || o.Replicas < 1 || o.Replicas > 5 {
		return o, fmt.Errorf("replicas=%.32s: use 1 to 5", replicas)
	}
	if maxBytes != "" {
		n, err := humanize.ParseBytes(maxBytes)
		if err != nil || n < leastBytes || n > math.MaxInt64 {
			return o, fmt.Errorf("maxBytes=%.32s: use a size such as 10GiB, and at least 1MiB", maxBytes)
		}
		o.MaxBytes = int64(n)
	}
	return o, nil
}

// leastBytes is the least that an owner's stream may be limited to.
const leastBytes = 1 << 20

// State is a tasks.State in JetStream.
type State struct {
	*engine.State
	c *connection

	turn atomic.Uint64 // whose tasks Next looks for first

	standingMu sync.Mutex
	standing   *standing // between two calls of Next
}

var _ tasks.Queues = (*State)(nil)

// connection is the engine: servers of NATS.
type connection struct {
	o  Options
	nc *nats.Conn // nil until Connect
	js jetstream.JetStream

	garbage atomic.Int64 // offers that could not be used
}

// New returns a state. It connects to nothing yet.
func New(o Options) *State {
	if o.Prefix == "" {
		o.Prefix = "runnel"
	}
	if o.Replicas <= 0 {
		o.Replicas = 1
	}
	c := &connection{o: o}
	return &State{State: engine.New(c, o.Servers, o.Options), c: c}
}

const (
	connectTimeout = 5 * time.Second
	reconnectWait  = 250 * time.Millisecond // then more, up to some seconds, with many servers
	// pingInterval and mostPings decide how soon a server is given up that no longer answers, though the
	// connection stands: well before the lease of this process runs out.
	pingInterval = 2 * time.Second
	mostPings    = 2
	// flushTimeout is how long a server may take to read what is written to it, before it is given up: the
	// client's calls and pings wait that long, whatever their contexts say.
	flushTimeout = pingInterval * mostPings
	// writeTimeout is how long a write waits for the servers, an election among them, before it is refused
	// with tasks.ErrBusy.
	writeTimeout = 10 * time.Second
	// writeAgain is the pause before an unacknowledged write is sent again.
	writeAgain = 100 * time.Millisecond
	ackTimeout = 2 * time.Second
	// mostQueued is how many messages a subscription may queue: as many as one request has answers (the
	// server allows 1,024), twice. Each request of several answers makes such a queue; the client's default
	// takes 512 KiB, which was half of what it cost to follow a task.
	mostQueued = 2048
)

// Connect implements engine.Engine.
func (c *connection) Connect(context.Context) error {
	if c.nc != nil {
		return nil
	}
	options := []nats.Option{
		nats.Name("runnel"), nats.Timeout(connectTimeout), nats.MaxReconnects(-1),
		nats.ReconnectWait(reconnectWait),
		nats.PingInterval(pingInterval), nats.MaxPingsOutstanding(mostPings),
		nats.FlusherTimeout(flushTimeout), nats.SetCustomDialer(dialer{}), nats.SyncQueueLen(mostQueued),
		nats.IgnoreAuthErrorAbort(), // credentials are renewed
		nats.ReconnectBufSize(-1),   // callers send again what could not be sent, in order
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			c.o.Log.Warn().Err(err).Msg("the connection to NATS")
		}),
	}
	if c.o.Credentials != "" {
		if _, err := os.Stat(c.o.Credentials); err != nil {
			return fmt.Errorf("the credentials of the state: %w", err)
		}
		options = append(options, nats.UserCredentials(c.o.Credentials))
	}
	if c.o.RootCA != "" {
		options = append(options, nats.RootCAs(c.o.RootCA))
	}
	nc, err := nats.Connect(c.o.Servers, options...)
	if err != nil {
		return err
	}
	if version := nc.ConnectedServerVersion(); tooOld(version) {
		url := nc.ConnectedUrlRedacted()
		nc.Close()
		return fmt.Errorf("the server at %s is NATS %s: 2.11 or later is needed", url, version)
	}
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(ackTimeout),
		jetstream.WithPublishAsyncTimeout(ackTimeout))
	if err != nil {
		nc.Close()
		return err
	}
	c.nc, c.js = nc, js
	return nil
}

// tooOld reports whether a server of a version cannot hold a state: messages have a time to live since 2.11.
// An older one would keep the streams, but without it.
func tooOld(version string) bool {
	var major, minor int
	n, _ := fmt.Sscanf(version, "%d.%d", &major, &minor)
	return n == 2 && (major < 2 || major == 2 && minor < 11) // who says no version is believed
}

// dialer makes connections that close when a write takes too long. Otherwise each call would wait for its own
// write to time out, one after the other.
type dialer struct{}

func (dialer) Dial(network, address string) (net.Conn, error) {
	conn, err := net.DialTimeout(network, address, connectTimeout)
	if err != nil {
		return nil, err // not an impatient around nil: the client would use it
	}
	return impatient{conn}, nil
}

type impatient struct{ net.Conn }

func (c impatient) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		_ = c.Close()
	}
	return n, err
}

// Disconnect implements engine.Engine.
func (c *connection) Disconnect() {
	if c.nc != nil {
		c.nc.Close()
	}
}

// These errors tell people why servers cannot store or answer.

// explain turns a server's refusal into an error that says what the user can do.
func explain(err *jetstream.APIError) error {
	if isFull(err) {
		return tasks.Trouble{Err: fmt.Errorf("%w: wait for tasks to expire, prune some (runnel tasks "+
			"prune --force), or raise its limit (?maxBytes=, or the server's): %w",
			engine.ErrNoRoom, err)}
	}
	return tasks.Trouble{Err: fmt.Errorf("the state refuses it: %w", err)}
}

const (
	noPeers    = 10005 // some nodes are away, or have no room for a stream
	notCreated = 10049 // a stream of this name is being deleted, or the disk refuses its folder
)

// isFull reports whether a server has no room for a message, or for a stream.
func isFull(err *jetstream.APIError) bool {
	switch err.ErrorCode {
	case 10002, 10023, 10028, 10047: // limits of the account or the server, of memory or storage
		return true
	case noPeers:
		return strings.Contains(err.Description, "insufficient storage")
	}
	// JSStreamStoreFailedF, whatever the reason.
	return err.ErrorCode == 10077 && strings.HasPrefix(err.Description, "maximum ")
}

// busy turns refusals that will pass into tasks.ErrBusy.
func busy(err error) error {
	refused, ok := errors.AsType[*jetstream.APIError](err)
	switch {
	case err == nil, errors.Is(err, nats.ErrNoResponders),
		errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		// A server without JetStream.
		return err
	case ok && refused.Code != 503 && (refused.ErrorCode != noPeers || isFull(refused)):
		return err
	}
	return unreachable(err)
}

func unreachable(err error) error {
	return tasks.Trouble{Err: engine.Away{Err: fmt.Errorf("no server of the state has answered: %w", err)}}
}
