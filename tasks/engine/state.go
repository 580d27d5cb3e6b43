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
	"github.com/rs/zerolog"

	"runnel/tasks"
)

var _ tasks.State = (*State)(nil)

// Options of a State that every engine has.
type Options struct {
	Limits tasks.Limits // for each owner, over all processes
	Calls  bool         // finds calls without a handle that run, too: for people, never for clients
	Log    zerolog.Logger
	Pace   time.Duration // the least time between two writes of a task's output, unless there is much of it; 0 = 50 ms

	Now func() time.Time // nil = time.Now
}

// State is a tasks.State in an engine. It connects with the first use, so that a process that only answers a probe opens no connection.
type State struct {
	Options
	Keeper string // the name of this process
	engine Engine
	where  string // for people

	ctx  context.Context // until Close
	stop context.CancelFunc

	dial      sync.Mutex // held while the server is connected to; before mu
	mu        sync.Mutex
	spaces    map[string]*Space        // by owner
	opening   map[string]chan struct{} // by owner: closed once it is known whether there is a space
	refused   error                    // why the server could not be reached last
	refusedAt time.Time
	closed    bool
	changed   chan struct{} // closed when there is something for Heed
	news      bool          // there was, and Heed has not returned since
}

// New returns a state in an engine at a place. It connects to nothing yet.
func New(e Engine, where string, o Options) *State {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Pace == 0 {
		o.Pace = defaultPace
	}
	s := &State{
		Options: o, Keeper: uuid.NewString(), engine: e, where: where,
		spaces: map[string]*Space{}, opening: map[string]chan struct{}{}, changed: make(chan struct{}),
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s
}

const (
	openTimeout = 10 * time.Second
	// refusalTime is how long a server that could not be reached is not asked again.
	refusalTime = time.Second
	// leaveTimeout is how long a server is waited for that is told what it would find out by itself.
	leaveTimeout = time.Second
)

// Space returns what this process has of an owner's tasks. Several owners are opened at once, each by one who asks.
func (s *State) Space(ctx context.Context, owner string) (*Space, error) {
	for {
		s.mu.Lock()
		sp, opening, err := s.spaces[owner], s.opening[owner], s.refused
		switch {
		case s.closed:
			err = errors.New("the state is closed")
		case sp != nil || time.Since(s.refusedAt) > refusalTime:
			err = nil
		}
		if sp == nil && err == nil && opening == nil {
			s.opening[owner] = make(chan struct{})
		}
		s.mu.Unlock()
		switch {
		case sp != nil || err != nil:
			return sp, err
		case opening == nil:
			return s.open(ctx, owner)
		}
		select {
		case <-opening:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// open opens an owner's space, which s.opening says.
func (s *State) open(ctx context.Context, owner string) (sp *Space, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	if err = s.connect(ctx); err == nil {
		if sp, err = s.openSpace(ctx, owner); err != nil {
			err = tasks.Trouble{Err: fmt.Errorf("opening the state at %s: %w", s.where, err)}
		}
		if errors.Is(err, tasks.ErrBusy) && ctx.Err() == nil { // it is so for the next one, too
			s.refuse(err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.opening[owner])
	delete(s.opening, owner)
	if err == nil {
		s.spaces[owner] = sp
	}
	return sp, err
}

// connect connects to the server. Who has waited for another one to do it does not wait for the server, too.
func (s *State) connect(ctx context.Context) error {
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

// opened are the spaces of owners that this process has met.
func (s *State) opened() []*Space {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.spaces))
}

// Close lets go of the state. Everything has been written that Put has returned for.
func (s *State) Close() error {
	s.stop()
	s.mu.Lock()
	s.closed = true
	opening := slices.Collect(maps.Values(s.opening))
	s.mu.Unlock()
	for _, done := range opening { // they end soon: s.ctx has
		<-done
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout) // for all
	defer cancel()
	for _, sp := range s.opened() {
		sp.Stop()
		sp.Leave(ctx)
	}
	s.engine.Disconnect()
	return nil
}

// Notice wakes all who wait in Heed, or the next one.
func (s *State) Notice() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.news = true
	close(s.changed)
	s.changed = make(chan struct{})
}

const (
	// heedInterval is how often Heed repeats what it has returned.
	heedInterval = 250 * time.Millisecond
	// heedMost is how long it waits before it looks by itself: a runner that has nothing left to watch goes.
	heedMost = time.Second
)

// Heed implements tasks.State.
func (s *State) Heed(ctx context.Context) (asked, fenced []string, err error) {
	s.mu.Lock()
	changed, news := s.changed, s.news
	s.news = false
	s.mu.Unlock()
	wait := heedMost
	if asked, fenced, err = s.heard(ctx); err == nil && len(asked)+len(fenced) > 0 {
		if wait = heedInterval; news {
			return asked, fenced, nil
		}
	}
	select {
	case <-changed:
		s.mu.Lock()
		s.news = false
		s.mu.Unlock()
	case <-time.After(wait):
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
	return s.heard(ctx)
}

func (s *State) heard(ctx context.Context) (asked, fenced []string, err error) {
	for _, sp := range s.opened() {
		some, others, failed := sp.heard(ctx)
		asked, fenced = append(asked, some...), append(fenced, others...)
		if failed != nil {
			err = failed
		}
	}
	return asked, fenced, err
}
