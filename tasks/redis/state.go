package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/redis/rueidis"

	"runnel/tasks"
)

// State is a tasks.State in Redis. It connects with the first use, so that a process that only answers a probe opens no connection.
type State struct {
	o      Options
	keeper string // the name of this process

	mu     sync.Mutex
	client rueidis.Client    // nil until the first use
	spaces map[string]*space // by owner
	closed bool
	// refused is why the server could not be reached last.
	refused   error
	refusedAt time.Time
	heed      chan struct{} // capacity 1: somebody asks, or a task was fenced
}

// New returns a state. It connects to nothing yet.
func New(o Options) *State {
	if o.Prefix == "" {
		o.Prefix = "runnel"
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &State{o: o, keeper: uuid.NewString(), spaces: map[string]*space{}, heed: make(chan struct{}, 1)}
}

const (
	connectTimeout = 5 * time.Second
	refusalTime    = time.Second // is how long a server that could not be reached is not asked again
	leaveTimeout   = time.Second // is how long a server is waited for that is told what it would find out by itself
	bufferBytes    = 64 << 10    // of a connection, each way: a stretch of output
)

// connect returns the connection. s.mu is held.
func (s *State) connect() error {
	if s.client != nil {
		return nil
	}
	config, err := s.o.tlsConfig()
	if err == nil {
		s.client, err = rueidis.NewClient(rueidis.ClientOption{
			InitAddress: []string{s.o.Server}, ForceSingleClient: true, TLSConfig: config, SelectDB: s.o.DB,
			ClientName: "runnel", ClientSetInfo: rueidis.DisableClientSetInfo, // an ACL need not allow it
			Dialer:            net.Dialer{Timeout: connectTimeout},
			ConnWriteTimeout:  writeTimeout,
			DisableCache:      true,                                                                  // others write
			DisableRetry:      true,                                                                  // space.call does it
			PipelineMultiplex: -1, ReadBufferEachConn: bufferBytes, WriteBufferEachConn: bufferBytes, // one connection
			AuthCredentialsFn: func(rueidis.AuthCredentialsContext) (c rueidis.AuthCredentials, err error) {
				c.Username, c.Password, err = s.o.credentials()
				return c, err
			},
		})
	}
	if err != nil {
		s.client = nil
		return s.refuse(fmt.Errorf("connecting to the state at %s: %w", s.o.Server, unconnected(err)))
	}
	return nil
}

// refuse notes why the server could not be reached. s.mu is held.
func (s *State) refuse(err error) error {
	s.refused, s.refusedAt = tasks.Trouble{Err: err}, time.Now()
	return s.refused
}

// space returns what this process has of an owner's keys.
func (s *State) space(ctx context.Context, owner string) (*space, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, errors.New("the state is closed")
	case s.spaces[owner] != nil:
		return s.spaces[owner], nil
	case time.Since(s.refusedAt) < refusalTime: // who has waited for s.mu meanwhile does not wait for the server, too
		return nil, s.refused
	}
	if err := s.connect(); err != nil {
		return nil, err
	}
	sp, err := s.openSpace(ctx, owner)
	if err != nil {
		err = fmt.Errorf("opening the state at %s: %w", s.o.Server, err)
		if errors.Is(err, tasks.ErrBusy) && ctx.Err() == nil { // it is so for the next one, too
			return nil, s.refuse(err)
		}
		return nil, tasks.Trouble{Err: err}
	}
	s.spaces[owner] = sp
	return sp, nil
}

// Close lets go of the state. Everything has been written that Put has returned for.
func (s *State) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout) // for all
	defer cancel()
	for _, sp := range s.spaces {
		sp.close(ctx)
	}
	if s.client != nil {
		s.client.Close()
	}
	return nil
}

// notice wakes Heed.
func (s *State) notice() {
	select {
	case s.heed <- struct{}{}:
	default:
	}
}
