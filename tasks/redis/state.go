package redis

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"runnel/internal/pause"
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
