package redis

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"runnel/internal/pause"
	"runnel/internal/system"
	"runnel/tasks/engine"
)

// State is a tasks.State in Redis.
type State struct {
	*engine.State
	server *connection
}

// New returns a state. It connects to nothing yet.
func New(o Options) *State {
	if o.Prefix == "" {
		o.Prefix = "runnel"
	}
	s := &connection{o: o, channels: map[string]*channel{}}
	return &State{engine.New(s, o.Server, o.Options), s}
}

// connection is the engine: a Redis server.
type connection struct {
	o      Options
	client rueidis.Client // nil until Connect

	mu       sync.Mutex
	channels map[string]*channel // by name: those of tasks that are watched
}

const (
	connectTimeout = 5 * time.Second
	leaveTimeout   = time.Second // bounds a last request that the server can do without
	bufferBytes    = 64 << 10    // of a connection, each way: an extent of output
)

// Connect implements engine.Engine.
func (s *connection) Connect(context.Context) error {
	if s.client != nil {
		return nil
	}
	config, err := s.o.tlsConfig()
	if err != nil {
		return err
	}
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{s.o.Server}, ForceSingleClient: true, TLSConfig: config, SelectDB: s.o.DB,
		ClientName: "runnel", ClientSetInfo: rueidis.DisableClientSetInfo, // an ACL need not allow it
		Dialer:           net.Dialer{Timeout: connectTimeout},
		DialCtxFn:        dialBounded,
		ConnWriteTimeout: writeTimeout,
		// Others write.
		DisableCache: true,
		// space.call does it.
		DisableRetry: true,
		// One connection.
		PipelineMultiplex: -1, ReadBufferEachConn: bufferBytes, WriteBufferEachConn: bufferBytes,
		AuthCredentialsFn: func(rueidis.AuthCredentialsContext) (c rueidis.AuthCredentials, err error) {
			c.Username, c.Password, err = s.o.credentials()
			return c, err
		},
	})
	if err != nil {
		return unconnected(err)
	}
	s.client = client
	return nil
}

// Disconnect implements engine.Engine. It does not wait for a client that waits for its server: such a client
// may never end.
func (s *connection) Disconnect() {
	if s.client == nil {
		return
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		s.client.Close()
	}()
	select {
	case <-closed:
	case <-time.After(leaveTimeout):
	}
}

// space is the engine.Driver: an owner's keys.
type space struct {
	*engine.Space
	server *connection
	root   string // PREFIX:OWNER:
}

// schema is the version of what is stored in Redis. The scripts compare it: a runnel that is older than what
// is stored writes nothing.
const schema = "1"

// Open implements engine.Engine.
func (s *connection) Open(ctx context.Context, of *engine.Space) (engine.Driver, engine.Queue, error) {
	sp := &space{Space: of, server: s, root: s.o.Prefix + ":" + of.Name + ":"}
	found, err := sp.call(ctx, "open", "", 0)
	if err == nil {
		err = engine.CheckSchema(sp.root+"*", found, schema)
	}
	if err != nil {
		return nil, nil, err
	}
	sp.Go(sp.listen)
	return sp, nil, nil
}

// listen receives the requests of others, until Close. Those that are sent while the connection is lost are
// found by Asked.
func (sp *space) listen(ctx context.Context) {
	c := sp.server.client
	for again := true; again; again = pause.For(ctx, time.Second) {
		_ = c.Receive(ctx, c.B().Subscribe().Channel(sp.root+"ask:"+sp.Keeper).Build(),
			func(rueidis.PubSubMessage) { sp.Notice() })
	}
}

// Options of a State.
type Options struct {
	Server string // HOST:PORT
	TLS    bool
	DB     int    // the number of the server's database
	Prefix string // of keys and channels; "" = runnel
	// Credentials is a file with one line, USER PASSWORD or PASSWORD alone; "" = none. It is read for each
	// connection: it may change.
	Credentials string
	// RootCA is a file with the certificates that sign the server's, "" = the system's.
	RootCA string
	engine.Options
}

// Parse makes Options of a URL: redis://HOST[:PORT][/DB][?prefix=P&creds=FILE&ca=FILE], or rediss:// for TLS.
// Credentials are never part of it: they come from a file, which creds or the environment variable
// RUNNEL_REDIS_CREDS names.
func Parse(state string, getenv func(string) string) (Options, error) {
	o := Options{Credentials: getenv("RUNNEL_REDIS_CREDS")}
	form := engine.URLForm{
		Schemes: []string{"redis", "rediss"}, Example: "redis://host:6379?prefix=runnel",
		Secrets: "put USER PASSWORD in a file, and name it with ?creds=FILE or RUNNEL_REDIS_CREDS",
		Options: map[string]*string{"prefix": &o.Prefix, "creds": &o.Credentials, "ca": &o.RootCA},
	}
	u, err := form.Parse(state)
	if err != nil {
		return o, err
	}
	if u.Hostname() == "" || strings.Contains(u.Host, ",") {
		return o, errors.New("the URL of the state names one server: use one such as " + form.Example)
	}
	o.Server, o.TLS = net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "6379")), u.Scheme == "rediss"
	if db := strings.Trim(u.Path, "/"); db != "" {
		if o.DB, err = strconv.Atoi(db); err != nil || o.DB < 0 {
			return o, fmt.Errorf("the URL of the state has the path /%.32s: use the number of a database, "+
				"such as /0", db)
		}
	}
	if o.RootCA != "" && !o.TLS {
		return o, errors.New("ca=FILE needs TLS: use rediss://")
	}
	return o, nil
}

// maxSecretFile limits a file of credentials or certificates, in bytes.
const maxSecretFile = 1 << 20

// credentials reads the file of credentials.
func (o *Options) credentials() (user, password string, err error) {
	if o.Credentials == "" {
		return "", "", nil
	}
	text, err := system.ReadNamed(o.Credentials, maxSecretFile)
	if err != nil {
		return "", "", fmt.Errorf("the credentials of the state: %w", err)
	}
	switch fields := strings.Fields(string(text)); len(fields) {
	case 1:
		return "default", fields[0], nil
	case 2:
		return fields[0], fields[1], nil
	}
	return "", "", fmt.Errorf("the credentials of the state: %s holds neither USER PASSWORD nor PASSWORD "+
		"on one line", o.Credentials)
}

// tlsConfig returns the TLS configuration, nil without TLS.
func (o *Options) tlsConfig() (*tls.Config, error) {
	if !o.TLS {
		return nil, nil
	}
	host, _, _ := net.SplitHostPort(o.Server)
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: host}
	if o.RootCA != "" {
		pem, err := system.ReadNamed(o.RootCA, maxSecretFile)
		if err != nil {
			return nil, fmt.Errorf("the certificates of the state: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("the certificates of the state: %s holds none", o.RootCA)
		}
	}
	return config, nil
}

// Check implements engine.Driver.
func (sp *space) Check(ctx context.Context) (string, error) {
	live, err := sp.read(ctx, func(b rueidis.Builder) rueidis.Completed {
		return b.Hlen().
			Key(sp.root + "live").Build()
	})
	if err != nil {
		return "", err
	}
	all, err := sp.read(ctx, func(b rueidis.Builder) rueidis.Completed {
		return b.Zcard().
			Key(sp.root + "tasks").Build()
	})
	if err != nil {
		return "", err
	}
	alive, err := sp.Alive(ctx)
	if err != nil {
		return "", err
	}
	working, _ := live.AsInt64()
	stored, _ := all.AsInt64()
	report := fmt.Sprintf("tasks: %d, not ended: %d, runnels: %d", stored, working, len(alive))
	return report + sp.risks(ctx), nil
}

// risks says how the server may lose what it has stored, if this user is allowed to ask.
func (sp *space) risks(ctx context.Context) (said string) {
	answer, err := sp.read(ctx, func(b rueidis.Builder) rueidis.Completed { return b.Info().Build() })
	if err != nil {
		return ""
	}
	info, _ := answer.ToString()
	if strings.Contains(info, "aof_enabled:0") {
		said += "; a crash of the server loses what it has not saved (set appendonly yes)"
	}
	if strings.Contains(info, "maxmemory_policy:") && !strings.Contains(info, "maxmemory_policy:noeviction") {
		said += "; when its memory is full it drops tasks (set maxmemory-policy noeviction)"
	}
	return said
}
