package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"runnel/internal/signal"
	"runnel/partials"
	"runnel/tasks"
)

// Space is the store of an owner's tasks. It opens what the server has of them when it is first used. An
// engine's Driver gets it, and calls it when it receives news.
type Space struct {
	*process
	state *State
	Owner string
	// Name is the owner's name in a form for keys, streams and subjects.
	Name string
	Driver
	Queue Queue // nil = tasks cannot wait for workers

	opening chan struct{} // capacity 1: full while the space is opened or closed
	open    atomic.Bool   // what stands above is set
	news    news

	ctx  context.Context // ends with Close
	stop context.CancelFunc
	all  sync.WaitGroup

	mu         sync.Mutex
	live       map[string]*backing // by id: the tasks that this process runs
	wanted     map[string]struct{} // those of live that others ask to cancel
	fenced     map[string]struct{} // those of live that others have ended
	doubtful   map[string]struct{} // refused tasks of which something may be stored
	unanswered map[string]struct{} // tasks that this process may have taken: no answer has come
	renewed    time.Time           // when the lease was last stored

	unleased atomic.Bool // the lease could not be renewed the last time
	failed   atomic.Bool // the last sweep has failed

	clearing chan struct{}        // capacity 1: full while a refused task is deleted
	sweeping sync.Mutex           // held across I/O, before clearing
	missed   map[string]time.Time // processes without a lease, and when this one noticed
	stale    map[Mark]time.Time   // marks without a record, and when this process noticed
	absent   map[string]time.Time // keepers of tasks that resume without a lease, and when this process noticed; guarded by mu
	strays   map[string]bool      // tasks marked as this process's that it did not run at the last look

	line line

	following map[*partials.Log]*following // Watch continues with these
	latest    *Record                      // the record of the task that the Queue has returned last
}

var _ tasks.Shared = (*Space)(nil)

// newSpace makes a space that is not open yet.
func newSpace(s *State, owner string) *Space {
	sp := &Space{
		process: s.process, state: s, Owner: owner, Name: owner, news: news{sent: make(chan struct{})},
		opening: make(chan struct{}, 1),
		live:    map[string]*backing{}, wanted: map[string]struct{}{}, fenced: map[string]struct{}{},
		doubtful: map[string]struct{}{}, unanswered: map[string]struct{}{},
		clearing: make(chan struct{}, 1), line: line{look: make(chan struct{}, 1)},
		following: map[*partials.Log]*following{}, absent: map[string]time.Time{},
	}
	if !IsToken(owner) || strings.HasPrefix(owner, "_") {
		sum := sha256.Sum256([]byte(owner))
		sp.Name = "_" + hex.EncodeToString(sum[:16])
	}
	return sp
}

// Ready opens the space if it is not open yet: the first caller does, and the others wait for that.
func (sp *Space) Ready(ctx context.Context) error {
	s := sp.state
	if sp.open.Load() {
		if s.isClosed() {
			return errClosed
		}
		return nil
	}
	select {
	case sp.opening <- struct{}{}:
		defer func() { <-sp.opening }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if sp.open.Load() {
		return nil
	}
	if err := s.admits(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	if err := s.Connect(ctx); err != nil {
		return err
	}
	err := sp.begin(ctx)
	if err == nil {
		sp.open.Store(true)
		return nil
	}
	err = tasks.Trouble{Err: fmt.Errorf("opening the state at %s: %w", s.where, err)}
	if errors.Is(err, tasks.ErrBusy) && ctx.Err() == nil { // the next caller would get the same
		s.refuse(err)
	}
	return err
}

// begin opens what the server has of the owner, and takes the lease.
func (sp *Space) begin(ctx context.Context) (err error) {
	sp.mu.Lock()
	sp.ctx, sp.stop = context.WithCancel(context.Background())
	sp.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	if sp.Driver, sp.Queue, err = sp.state.engine.Open(ctx, sp); err == nil {
		if err = sp.Renew(ctx); errors.Is(err, ErrNoRoom) { // to list and to delete tasks needs none
			err = nil
		}
		if err != nil {
			sp.Leave(ctx)
		}
	}
	if err != nil {
		sp.Stop()
		return err
	}
	sp.all.Go(func() { sp.every(RenewInterval, sp.Renew, "backing the lease of this runnel") })
	sp.all.Go(func() {
		sp.every(sweepInterval, sp.SweepInTurn,
			"looking for tasks of runnels that are gone")
	})
	return nil
}

// Check checks whether the servers answer, and describes for people what the owner has there.
func (sp *Space) Check(ctx context.Context) (string, error) {
	if err := sp.Ready(ctx); err != nil {
		return "", err
	}
	return sp.Driver.Check(ctx)
}

// close stores what is not yet stored, and ends the lease.
func (sp *Space) close(ctx context.Context) {
	for _, k := range sp.mine() { // tasks that go on elsewhere
		k.mu.Lock()
		_ = k.flush(ctx) // else they lack the last of their output
		k.mu.Unlock()
	}
	sp.Stop()
	sp.returnUnanswered(ctx)
	sp.Leave(ctx)
}

// Lapsed implements tasks.Shared.
func (sp *Space) Lapsed() error {
	if sp.open.Load() && sp.unleased.Load() {
		return errors.New("the lease of this runnel could not be renewed: the state takes nothing")
	}
	return nil
}

// Stop ends the goroutines of the space.
func (sp *Space) Stop() {
	sp.mu.Lock() // see Go
	sp.stop()
	sp.mu.Unlock()
	sp.all.Wait()
}

// Go runs do in a goroutine until Close, when its context ends. It does nothing if the context has ended: a
// late request may call it while Stop already waits.
func (sp *Space) Go(do func(ctx context.Context)) {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	if sp.ctx.Err() == nil {
		sp.all.Go(func() { do(sp.ctx) })
	}
}

// kept returns the backing of a task that this process runs, or nil.
func (sp *Space) kept(id string) *backing {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	return sp.live[id]
}

// forget ends the backing of a task that has ended or has another keeper.
func (sp *Space) forget(id string) {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	if k := sp.live[id]; k != nil {
		k.stop()
	}
	delete(sp.live, id)
	delete(sp.wanted, id)
	delete(sp.fenced, id)
}

// Want notes that somebody asks to cancel a task of this process. An engine calls it when it receives such a
// request.
func (sp *Space) Want(id string) {
	sp.mu.Lock()
	runs := sp.live[id] != nil
	if runs {
		sp.wanted[id] = struct{}{}
	}
	sp.mu.Unlock()
	if runs {
		sp.Notice()
	}
}

// fence notes that others have ended a task of this process.
func (sp *Space) fence(k *backing) {
	sp.mu.Lock()
	runs := sp.live[k.id] == k // otherwise it has ended meanwhile
	if runs {
		sp.fenced[k.id] = struct{}{}
	}
	sp.mu.Unlock()
	if runs {
		sp.Notice()
	}
}

// doubt notes a refused task: nobody has its handle, so what may be stored of it is deleted.
func (sp *Space) doubt(id string, why error) {
	if why == nil || errors.Is(why, tasks.ErrFenced) || errors.Is(why, tasks.ErrTooManyLive) ||
		errors.Is(why, tasks.ErrTooManyStarts) {
		return // nothing is stored, or what is belongs to somebody else
	}
	sp.mu.Lock()
	defer sp.mu.Unlock()
	sp.doubtful[id] = struct{}{}
}

// clear deletes what may be stored of a refused task. A task that is put again waits for that: a sweep that
// had begun to delete it would otherwise delete the new one.
func (sp *Space) clear(ctx context.Context, id string) error {
	isDoubtful := func() bool {
		sp.mu.Lock()
		defer sp.mu.Unlock()
		_, is := sp.doubtful[id]
		return is
	}
	if !isDoubtful() {
		return nil
	}
	select {
	case sp.clearing <- struct{}{}:
		defer func() { <-sp.clearing }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if !isDoubtful() { // somebody else has cleared it
		return nil
	}
	if err := sp.Driver.Delete(ctx, id); err != nil {
		return err
	}
	sp.mu.Lock()
	defer sp.mu.Unlock()
	delete(sp.doubtful, id)
	return nil
}

// log returns the stored output of a task, for reading.
func (sp *Space) log(r *Record) *partials.Log {
	return partials.Stored(sp.output(r), r.End)
}

func (sp *Space) output(r *Record) partials.Backing {
	end := r.End
	return stored{sp.Output(r.ID, func() int64 { return end }), r.Ahead}
}

// Extents returns a collector for the output of a task after a position.
func (sp *Space) Extents(id string, after int64) *Extents {
	return &Extents{after: after, damage: func(err error) {
		sp.Log.Error().Str("taskId", id).Err(err).
			Msg("the state is damaged: a part of the output cannot be read")
	}}
}

// stored is output that nobody writes in this process.
type stored struct {
	Output
	ahead []partials.Extent // some of it that was read already
}

// Load implements partials.Backing.
func (s stored) Load(ctx context.Context, pos int64, limit int) ([]partials.Extent, error) {
	for i, e := range s.ahead {
		if e.Start <= pos && pos < e.End() {
			return s.ahead[i:], nil
		}
	}
	return s.Output.Load(ctx, pos, limit)
}

func (stored) Due(bool) {}

// IsToken reports whether a text can be used in keys, subjects and names as it is.
func IsToken(s string) bool {
	other := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
	}
	return s != "" && len(s) <= 64 && !strings.ContainsFunc(s, other)
}

// backing is what this process stores of a task that it runs.
type backing struct {
	Output
	sp       *Space
	id       string
	log      *partials.Log
	segments *partials.Segments
	front    string // the process with which it ends, unless its client has got the task's id
	numbers  bool   // segments get their numbers as they are stored
	end      atomic.Int64
	seen     atomic.Bool // it is not hidden, or may not be: it may have files

	due   signal.Wake // there is something to write
	hurry signal.Wake // there is much to write
	ctx   context.Context
	stop  context.CancelFunc

	mu     sync.Mutex // held across I/O: writes come one at a time, in order
	record *Record
	unsure bool // a later record may have been stored
	over   bool // the end is stored
	written
	unsent *Batch // was sent, but is not acknowledged: nothing else is sent before it is
}

// end stores the end of a task with its outcome.
func (sp *Space) end(ctx context.Context, r *Record) error {
	outcome, err := tasks.EncodeOutcome(&r.Task)
	if err != nil {
		return err
	}
	return sp.End(ctx, r, outcome)
}
