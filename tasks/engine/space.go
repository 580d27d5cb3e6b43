package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"runnel/partials"
	"runnel/tasks"
)

// Space is what this process has of an owner's tasks.
type Space struct {
	*State
	Owner string
	// Name is the owner's, as part of the names of keys, streams and subjects.
	Name string
	Store
	queue Queue // nil = tasks cannot wait for workers

	ctx  context.Context // until Close
	stop context.CancelFunc
	all  sync.WaitGroup

	mu       sync.Mutex
	live     map[string]*Keeping  // by id: the tasks that this process runs
	wanted   map[string]struct{}  // of them, those that others ask to cancel
	fenced   map[string]struct{}  // of them, those that others have ended
	doubtful map[string]struct{}  // tasks that were refused, of which something may be stored
	renewed  time.Time            // when the lease was last stored
	missed   map[string]time.Time // processes without a lease, and since when this one knows
	stale    map[Mark]time.Time   // marks that no record knows of, and since when
	strays   map[string]bool      // tasks of this process that it did not run when it looked last

	line line
}

// openSpace opens what there is of an owner, and takes the lease.
func (s *State) openSpace(ctx context.Context, owner string) (*Space, error) {
	sp := &Space{
		State: s, Owner: owner, Name: owner,
		live: map[string]*Keeping{}, wanted: map[string]struct{}{}, fenced: map[string]struct{}{}, doubtful: map[string]struct{}{},
		line: line{look: make(chan struct{}, 1)},
	}
	if !IsToken(owner) || strings.HasPrefix(owner, "_") {
		sum := sha256.Sum256([]byte(owner))
		sp.Name = "_" + hex.EncodeToString(sum[:16])
	}
	sp.ctx, sp.stop = context.WithCancel(context.Background())
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	var err error
	if sp.Store, sp.queue, err = s.engine.Open(ctx, sp); err == nil {
		err = sp.Renew(ctx)
	}
	if err != nil {
		sp.stop()
		return nil, err
	}
	sp.all.Go(func() { sp.every(RenewInterval, sp.Renew, "keeping the lease of this runnel") })
	sp.all.Go(func() { sp.every(sweepInterval, sp.Sweep, "looking for tasks of runnels that are gone") })
	return sp, nil
}

// Stop ends what goes on by itself.
func (sp *Space) Stop() {
	sp.stop()
	sp.all.Wait()
}

// Go runs do until Close; its context ends then.
func (sp *Space) Go(do func(ctx context.Context)) { sp.all.Go(func() { do(sp.ctx) }) }

// Runs reports whether this process runs a task. One that it has taken, or made, without having been told so, it does not.
func (sp *Space) Runs(id string) bool { return sp.kept(id) != nil }

// kept is what this process has of a task that it runs, nil if it does not.
func (sp *Space) kept(id string) *Keeping {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	return sp.live[id]
}

// forget ends the keeping of a task, which has ended or has another keeper.
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

// Want notes that somebody asks to cancel a task of this process.
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
func (sp *Space) fence(k *Keeping) {
	sp.mu.Lock()
	runs := sp.live[k.id] == k // else it has ended meanwhile
	if runs {
		sp.fenced[k.id] = struct{}{}
	}
	sp.mu.Unlock()
	if runs {
		sp.Notice()
	}
}

// heard returns the tasks of this process that others ask to cancel, and those that they have ended.
func (sp *Space) heard(ctx context.Context) (asked, fenced []string, err error) {
	sp.mu.Lock()
	asked, fenced = slices.Collect(maps.Keys(sp.wanted)), slices.Collect(maps.Keys(sp.fenced))
	runs := len(sp.live)
	sp.mu.Unlock()
	if runs == 0 {
		return asked, fenced, nil
	}
	stored, err := sp.Asked(ctx)
	return append(asked, slices.DeleteFunc(stored, func(id string) bool { return !sp.Runs(id) })...), fenced, err
}

// doubt notes that a task was refused: nobody has its handle, and what may be stored of it is deleted.
func (sp *Space) doubt(id string, why error) {
	if why == nil || errors.Is(why, tasks.ErrFenced) || errors.Is(why, tasks.ErrTooManyLive) || errors.Is(why, tasks.ErrTooManyStarts) {
		return // nothing is, or it is another one's
	}
	sp.mu.Lock()
	defer sp.mu.Unlock()
	sp.doubtful[id] = struct{}{}
}

// log is what is stored of a task's output, to be read.
func (sp *Space) log(r *Record) *partials.Log {
	return partials.Stored(sp.output(r), r.End)
}

func (sp *Space) output(r *Record) partials.Backing {
	end := r.End
	return stored{sp.Output(r.ID, func() int64 { return end })}
}

// stored is output that nobody writes here.
type stored struct{ Output }

func (stored) Due(bool) {}

const (
	// forever is a ttl beyond which nothing needs one.
	forever = 10 * 365 * 24 * time.Hour
	// graceTTL is how long what belongs to a task outlives it: its end is being stored.
	graceTTL = time.Minute
)

// Left is how long what is stored of a task is kept.
func (s *State) Left(t *tasks.Task) time.Duration {
	if t.TTL > forever {
		return forever
	}
	return max(t.TTL-s.Now().Sub(t.CreatedAt)+graceTTL, time.Second)
}

// IsToken reports whether a text may be part of a key, a subject or a name as it is.
func IsToken(s string) bool {
	other := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
	}
	return s != "" && len(s) <= 64 && !strings.ContainsFunc(s, other)
}
