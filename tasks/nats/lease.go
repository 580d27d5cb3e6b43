package nats

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"runnel/tasks"
	"runnel/tasks/engine"
)

// lease is the subject of a process's lease: a message that expires.
func (sp *space) lease(keeper string) string { return sp.alive + keeper }

// Lease implements engine.Driver.
func (sp *space) Lease(ctx context.Context) error {
	renew := func() error {
		_, err := sp.publish(ctx, &nats.Msg{Subject: sp.lease(sp.Keeper), Header: rollup},
			jetstream.WithMsgTTL(engine.LeaseTTL))
		return err
	}
	if sp.keeps.Load() {
		return sp.withReserve(ctx, renew)
	}
	return renew()
}

// sweeper is the subject of the lease of the process that sweeps for all: its body is the process's name.
func (sp *space) sweeper() string { return sp.alive + "sweep.lease" }

// Sweeps implements engine.Driver.
func (sp *space) Sweeps(ctx context.Context, able bool) (bool, error) {
	if !able && sp.sweeps.Swap(false) {
		if err := sp.leases.Purge(ctx, jetstream.WithPurgeSubject(sp.sweeper())); err != nil {
			return false, unreachable(err)
		}
		return false, nil
	}
	now, err := sp.lastOf(ctx, sp.leaseName, sp.sweeper())
	if err != nil {
		return false, err
	}
	var revision uint64
	if len(now) > 0 {
		if revision = now[0].Sequence; string(now[0].Data) != sp.Keeper {
			sp.sweeps.Store(false)
			return false, nil
		}
	}
	m := &nats.Msg{Subject: sp.sweeper(), Header: rollup, Data: []byte(sp.Keeper)}
	_, err = sp.publish(ctx, m, jetstream.WithExpectLastSequencePerSubject(revision),
		jetstream.WithMsgTTL(engine.LeaseTTL))
	sp.sweeps.Store(err == nil)
	if errors.Is(err, tasks.ErrFenced) { // another process was faster, or the acknowledgement was lost
		return false, nil
	}
	return err == nil, err
}

// Leave implements engine.Driver.
func (sp *space) Leave(ctx context.Context) {
	_ = sp.asked.Unsubscribe()
	if sp.sweeps.Load() {
		_ = sp.leases.Purge(ctx, jetstream.WithPurgeSubject(sp.sweeper()))
	}
	// If this fails, the lease expires by itself.
	_ = sp.leases.Purge(ctx, jetstream.WithPurgeSubject(sp.lease(sp.Keeper)))
}

// Alive implements engine.Driver.
func (sp *space) Alive(ctx context.Context) ([]string, error) {
	leases, err := sp.subjects(ctx, sp.leaseName, sp.lease("*"))
	for i := range leases {
		leases[i] = strings.TrimPrefix(leases[i], sp.alive)
	}
	return leases, err
}

// Lives implements engine.Queue.
func (sp *space) Lives(ctx context.Context, keeper string) (bool, error) {
	leases, err := sp.subjects(ctx, sp.leaseName, sp.lease(keeper))
	return len(leases) > 0, err
}

// marks returns the pattern for the marks of a task, or of all ("*"): PREFIX.OWNER.live.ID.KEEPER. No task
// has the id live. In this place a server finds the marks at once, however many tasks have ended; when live
// came after the id, it searched everything that was stored.
func (sp *space) marks(id, keeper string, hidden bool) string {
	if hidden {
		return sp.root + "hidden." + id + "." + keeper
	}
	return sp.root + "live." + id + "." + keeper
}

// Marks implements engine.Driver.
func (sp *space) Marks(ctx context.Context, keeper string) (marks []engine.Mark, err error) {
	for _, hidden := range []bool{false, true} {
		subjects, err := sp.subjects(ctx, sp.name, sp.marks("*", cmp.Or(keeper, "*"), hidden))
		if err != nil {
			return nil, err
		}
		for _, subject := range subjects {
			if parts := strings.Split(strings.TrimPrefix(subject, sp.root), "."); len(parts) == 3 &&
				parts[2] != engine.QueueKeeper {
				marks = append(marks, engine.Mark{ID: parts[1], Keeper: parts[2], Hidden: hidden})
			}
		}
	}
	return marks, nil
}

// Waiting implements engine.Queue.
func (sp *space) Waiting(ctx context.Context) ([]string, error) {
	marked, err := sp.subjects(ctx, sp.name, sp.marks("*", engine.QueueKeeper, false))
	for i, subject := range marked {
		marked[i] = strings.Split(strings.TrimPrefix(subject, sp.root), ".")[1]
	}
	return slices.DeleteFunc(marked, func(id string) bool { return !engine.IsToken(id) }), err
}

// mark is the mark of a task.
func (sp *space) mark(r *engine.Record) write {
	return write{nats.NewMsg(sp.marks(r.ID, r.Stored.Keeper, r.Hidden)), sp.expires(r)}
}

// putMark stores a mark.
func (sp *space) putMark(ctx context.Context, r *engine.Record, o ...jetstream.PublishOpt) error {
	mark := sp.mark(r)
	_, err := sp.publish(ctx, mark.m, append(mark.o, o...)...)
	return err
}

// Unmark implements engine.Driver.
func (sp *space) Unmark(ctx context.Context, m engine.Mark) error {
	ctx, cancel := context.WithTimeout(ctx, ackTimeout)
	defer cancel()
	if err := sp.stream.Purge(ctx,
		jetstream.WithPurgeSubject(sp.marks(m.ID, m.Keeper, m.Hidden))); err != nil {
		return unreachable(err)
	}
	return nil
}

// Room in reserve, PREFIX.OWNER.reserve.N, is deleted when a server has no room for an end.
const (
	reservePieces = 4
	reserveBytes  = reservePieces * (maxMessage - 4<<10)
	// reserveLook is how often a process that has run tasks looks whether the reserve is there.
	reserveLook = time.Minute
)

// Tidy implements engine.Driver: the server forgets what has expired, and this process makes the reserve.
func (sp *space) Tidy(ctx context.Context) error {
	sp.mu.Lock()
	due := sp.keeps.Load() && time.Since(sp.reserved) > reserveLook
	if due {
		// Before it is made: withReserve may delete it in between, and the next Tidy then looks again.
		sp.reserved = time.Now()
	}
	sp.mu.Unlock()
	if !due {
		return nil
	}
	err := sp.reserve(ctx)
	if err != nil {
		sp.unreserve()
	}
	if errors.Is(err, engine.ErrNoRoom) { // the next Tidy may find some
		return nil
	}
	return err
}

// unreserve lets the next Tidy look whether the reserve is there.
func (sp *space) unreserve() {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	sp.reserved = time.Time{}
}

// reserve makes the pieces of the reserve that are not there.
func (sp *space) reserve(ctx context.Context) error {
	there, err := sp.subjects(ctx, sp.name, sp.root+"reserve.*")
	if err != nil {
		return err
	}
	all := int64(reserveBytes)
	if sp.maxBytes > 0 {
		all = min(all, sp.maxBytes/16)
	}
	for n := range reservePieces {
		piece := &nats.Msg{Subject: fmt.Sprint(sp.root, "reserve.", n), Header: rollup,
			Data: make([]byte, all/reservePieces)}
		if slices.Contains(there, piece.Subject) {
			continue
		}
		if _, err := sp.publish(ctx, piece); err != nil {
			return err
		}
	}
	return nil
}

// withReserve stores something and, if there is no room for it, deletes the reserve and stores it again; once
// more, if a sweep has just made the reserve again.
func (sp *space) withReserve(ctx context.Context, store func() error) error {
	err := store()
	for try := 0; errors.Is(err, engine.ErrNoRoom) && try < 2; try++ {
		purged := sp.stream.Purge(ctx, jetstream.WithPurgeSubject(sp.root+"reserve.*"))
		sp.unreserve() // afterwards: a Tidy that has begun before made what was purged
		if purged != nil {
			return err
		}
		err = store()
	}
	return err
}
