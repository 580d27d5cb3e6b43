package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"runnel/tasks"
)

var _ tasks.State = (*State)(nil)

// State is a tasks.State in an engine. It connects when it is first used, so that a process that only answers
// a probe opens no connection.
type State struct {
	*process
	engine Engine
	where  string // for messages to people

	ctx  context.Context // ends with Close
	stop context.CancelFunc

	dial      sync.Mutex // held while connecting to the server; before mu
	mu        sync.Mutex
	spaces    map[string]*Space // by owner
	refused   error             // why the server could not be reached last
	refusedAt time.Time
	closed    bool
}

// New returns a state in an engine. where describes its place to people. It does not connect yet.
func New(e Engine, where string, o Options) *State {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Recovered == nil {
		o.Recovered = func(*tasks.Task) {}
	}
	if o.Pace == 0 {
		o.Pace = defaultPace
	}
	s := &State{
		process: &process{Options: o, Keeper: uuid.NewString()},
		engine:  e, where: where, spaces: map[string]*Space{},
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s
}

const (
	openTimeout = 10 * time.Second
	// refusalTime is how long an unreachable server is not tried again.
	refusalTime = time.Second
	// leaveTimeout bounds how long Close tries to tell the server what others would find out anyway.
	leaveTimeout = time.Second
)

// Open implements tasks.State.
func (s *State) Open(owner string) tasks.Store { return s.Space(owner) }

// Space returns an owner's store, which may not be ready yet.
func (s *State) Space(owner string) *Space {
	s.mu.Lock()
	defer s.mu.Unlock()
	sp := s.spaces[owner]
	if sp == nil {
		sp = newSpace(s, owner)
		s.spaces[owner] = sp
	}
	return sp
}

// Connect connects to the server, unless it is done. Callers that have waited for another one's attempt share
// its outcome.
func (s *State) Connect(ctx context.Context) error {
	s.dial.Lock()
	defer s.dial.Unlock()
	s.mu.Lock()
	refused, at := s.refused, s.refusedAt
	s.mu.Unlock()
	if time.Since(at) < refusalTime {
		return refused
	}
	if err := s.engine.Connect(ctx); err != nil {
		err = tasks.Trouble{Err: fmt.Errorf("connecting to the state at %s: %w", s.where, err)}
		s.refuse(err)
		return err
	}
	return nil
}

// refuse notes why the server could not be reached.
func (s *State) refuse(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused, s.refusedAt = err, time.Now()
}

// admits returns an error while no space can be opened: the server has just not been reached, or the state is
// closed.
func (s *State) admits() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return errClosed
	case time.Since(s.refusedAt) < refusalTime:
		return s.refused
	}
	return nil
}

var errClosed = errors.New("the state is closed")

// isClosed reports whether Close has begun.
func (s *State) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// Close releases the state. Everything that Put has returned for is already written.
func (s *State) Close() error {
	s.stop()
	s.mu.Lock()
	s.closed = true
	spaces := slices.Collect(maps.Values(s.spaces))
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout) // for all spaces together
	defer cancel()
	for _, sp := range spaces {
		sp.opening <- struct{}{} // soon, because s.ctx has ended
		if sp.open.Load() {
			sp.close(ctx)
		}
		<-sp.opening
	}
	s.engine.Disconnect()
	return nil
}

// Engine is a server, or a cluster of them, that keeps tasks for a State.
type Engine interface {
	// Connect connects to the server if it is not connected yet.
	Connect(ctx context.Context) error
	// Open opens, or makes, what the server keeps of an owner's tasks, and the queue of those that wait for
	// workers, nil if the engine has none.
	Open(ctx context.Context, sp *Space) (Driver, Queue, error)
	// Disconnect closes the connection.
	Disconnect()
}

// defaultPace lets lines that come one by one be stored together.
const defaultPace = 50 * time.Millisecond
