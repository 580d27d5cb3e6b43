package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"runnel/partials"
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
	spaces    map[string]*Space        // by owner
	opening   map[string]chan struct{} // by owner: closed once it is clear whether there is a space
	refused   error                    // why the server could not be reached last
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
		process: &process{Options: o, Keeper: uuid.NewString(), news: news{sent: make(chan struct{})}},
		engine:  e, where: where,
		spaces: map[string]*Space{}, opening: map[string]chan struct{}{},
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

// Space returns what this process has of an owner's tasks. Several owners can be opened at once, each by its
// first caller.
func (s *State) Space(ctx context.Context, owner string) (*Space, error) {
	for {
		s.mu.Lock()
		sp := s.spaces[owner]
		opening := s.opening[owner]
		err := s.refused
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

// open opens the space of an owner, who is in s.opening.
func (s *State) open(ctx context.Context, owner string) (sp *Space, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	if err = s.Connect(ctx); err == nil {
		if sp, err = s.openSpace(ctx, owner); err != nil {
			err = tasks.Trouble{Err: fmt.Errorf("opening the state at %s: %w", s.where, err)}
		}
		if errors.Is(err, tasks.ErrBusy) && ctx.Err() == nil { // the next caller would get the same
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

// opened returns all spaces that are open.
func (s *State) opened() []*Space {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.spaces))
}

// Lapsed implements tasks.Leased.
func (s *State) Lapsed(owner string) error {
	s.mu.Lock()
	sp := s.spaces[owner]
	s.mu.Unlock()
	if sp != nil && sp.unleased.Load() {
		return errors.New("the lease of this runnel could not be renewed: the state takes nothing")
	}
	return nil
}

// Close releases the state. Everything that Put has returned for is already written.
func (s *State) Close() error {
	s.stop()
	s.mu.Lock()
	s.closed = true
	opening := slices.Collect(maps.Values(s.opening))
	s.mu.Unlock()
	for _, done := range opening { // soon, because s.ctx has ended
		<-done
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout) // for all spaces together
	defer cancel()
	for _, sp := range s.opened() {
		for _, k := range sp.mine() { // tasks that go on elsewhere
			k.mu.Lock()
			_ = k.flush(ctx) // else they lack the last of their output
			k.mu.Unlock()
		}
		sp.Stop()
		sp.returnUnanswered(ctx)
		sp.Leave(ctx)
	}
	s.engine.Disconnect()
	return nil
}

// openSpace opens the space of an owner, and takes the lease.
func (s *State) openSpace(ctx context.Context, owner string) (*Space, error) {
	sp := &Space{
		process: s.process, Owner: owner, Name: owner,
		live: map[string]*backing{}, wanted: map[string]struct{}{}, fenced: map[string]struct{}{},
		doubtful: map[string]struct{}{}, unanswered: map[string]struct{}{},
		clearing: make(chan struct{}, 1), line: line{look: make(chan struct{}, 1)},
		following: map[*partials.Log]*following{}, absent: map[string]time.Time{},
	}
	if !IsToken(owner) || strings.HasPrefix(owner, "_") {
		sum := sha256.Sum256([]byte(owner))
		sp.Name = "_" + hex.EncodeToString(sum[:16])
	}
	sp.ctx, sp.stop = context.WithCancel(context.Background())
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	var err error
	if sp.Store, sp.Queue, err = s.engine.Open(ctx, sp); err == nil {
		if err = sp.Renew(ctx); errors.Is(err, ErrNoRoom) { // to list and to delete tasks needs none
			err = nil
		}
		if err != nil {
			sp.Leave(ctx)
		}
	}
	if err != nil {
		sp.stop()
		return nil, err
	}
	sp.all.Go(func() { sp.every(RenewInterval, sp.Renew, "backing the lease of this runnel") })
	sp.all.Go(func() {
		sp.every(sweepInterval, sp.SweepInTurn,
			"looking for tasks of runnels that are gone")
	})
	return sp, nil
}

// Engine is a server, or a cluster of them, that keeps tasks for a State.
type Engine interface {
	// Connect connects to the server if it is not connected yet.
	Connect(ctx context.Context) error
	// Open opens, or makes, what the server keeps of an owner's tasks, and the queue of those that wait for
	// workers, nil if the engine has none.
	Open(ctx context.Context, sp *Space) (Store, Queue, error)
	// Disconnect closes the connection.
	Disconnect()
}

// defaultPace lets lines that come one by one be stored together.
const defaultPace = 50 * time.Millisecond
