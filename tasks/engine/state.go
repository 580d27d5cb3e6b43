package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

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

// Options are those of a State in any engine.
type Options struct {
	Limits tasks.Limits // for each owner, over all processes
	Calls  bool         // also finds running calls without a handle: for people, never for clients
	Log    zerolog.Logger
	// Recovered is called with each task that this process has ended because its keeper was gone, except
	// those of workers, which are reported where they were offered. It must not block; nil = nothing is
	// called.
	Recovered func(t *tasks.Task)
	// The shortest time between two writes of a task's output, unless there is much; 0 = 50 ms.
	Pace time.Duration

	Now func() time.Time // nil = time.Now
}

// process is what a State and its spaces know about this process.
type process struct {
	Options
	Keeper string // its name
}

// shows reports whether a task is visible.
func (p *process) shows(r *Record) bool {
	return r != nil && !r.Expired(p.Now()) && (!r.Hidden || p.Calls || r.Damage != nil)
}

// Lifetime returns how long what is stored of a task is kept.
func (p *process) Lifetime(t *tasks.Task) time.Duration {
	if t.TTL > forever {
		return forever
	}
	return max(t.TTL-p.Now().Sub(t.CreatedAt)+graceTTL, time.Second)
}

const (
	// forever is a ttl beyond any need.
	forever = 10 * 365 * 24 * time.Hour
	// graceTTL is how long what belongs to a task outlives it, since its end may still be being stored.
	graceTTL = time.Minute
)

// URLForm is how an engine's URLs of states look: SCHEME://PLACE?NAME=VALUE&...
type URLForm struct {
	Schemes []string
	Example string
	Secrets string             // says where credentials belong: never in a URL
	Options map[string]*string // where values go, by name; that of prefix is checked
}

// Parse parses a URL. The caller checks its place. No error shows a part of it that may be a password.
func (f *URLForm) Parse(state string) (*url.URL, error) {
	u, err := url.Parse(state)
	switch {
	case err != nil:
		return nil, errors.New("the state is not a URL such as " + f.Example)
	case !slices.Contains(f.Schemes, u.Scheme):
		return nil, fmt.Errorf("the state has the scheme %s: use %s://", u.Scheme,
			strings.Join(f.Schemes, ":// or "))
	case u.User != nil:
		return nil, errors.New("the URL of a state holds no credentials: " + f.Secrets)
	}
	for name, values := range u.Query() {
		value := f.Options[name]
		if value == nil {
			known := slices.Sorted(maps.Keys(f.Options))
			return nil, fmt.Errorf("the URL of the state has the option %.32q: known are %s; %s", name,
				strings.Join(known, ", "), f.Secrets)
		}
		*value = values[0]
	}
	if prefix := *f.Options["prefix"]; prefix != "" && !IsToken(prefix) {
		return nil, fmt.Errorf("prefix=%.80s: use up to 64 letters, digits, - and _", prefix)
	}
	return u, nil
}
