package nats

import (
	"context"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"runnel/tasks/engine"
)

// lease is the subject of a process's lease: a message that expires.
func (sp *space) lease(keeper string) string { return sp.alive + keeper }

// Lease implements engine.Store.
func (sp *space) Lease(ctx context.Context) error {
	_, err := sp.publish(ctx, &nats.Msg{Subject: sp.lease(sp.Keeper), Header: rollup}, jetstream.WithMsgTTL(engine.LeaseTTL))
	return err
}

// Leave implements engine.Store.
func (sp *space) Leave(ctx context.Context) {
	_ = sp.asked.Unsubscribe()
	_ = sp.leases.Purge(ctx, jetstream.WithPurgeSubject(sp.lease(sp.Keeper))) // otherwise it expires by itself
}

// Alive implements engine.Store.
func (sp *space) Alive(ctx context.Context) ([]string, error) {
	leases, err := sp.subjects(ctx, sp.leaseName, sp.lease("*"))
	for i := range leases {
		leases[i] = strings.TrimPrefix(leases[i], sp.alive)
	}
	return leases, err
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

// Marks implements engine.Store.
func (sp *space) Marks(ctx context.Context) (marks []engine.Mark, err error) {
	for _, hidden := range []bool{false, true} {
		subjects, err := sp.subjects(ctx, sp.name, sp.marks("*", "*", hidden))
		if err != nil {
			return nil, err
		}
		for _, subject := range subjects {
			if parts := strings.Split(strings.TrimPrefix(subject, sp.root), "."); len(parts) == 3 && parts[2] != engine.QueueKeeper {
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

// putMark stores a mark.
func (sp *space) putMark(ctx context.Context, r *engine.Record) error {
	_, err := sp.publish(ctx, nats.NewMsg(sp.marks(r.ID, r.Stored.Keeper, r.Stored.Hidden)), sp.expiring(&r.Task))
	return err
}

// Unmark implements engine.Store.
func (sp *space) Unmark(ctx context.Context, m engine.Mark) error {
	ctx, cancel := context.WithTimeout(ctx, ackTimeout)
	defer cancel()
	if err := sp.stream.Purge(ctx, jetstream.WithPurgeSubject(sp.marks(m.ID, m.Keeper, m.Hidden))); err != nil {
		return unreachable(err)
	}
	return nil
}

// DropExpired implements engine.Store: the server does it.
func (sp *space) DropExpired(context.Context) error { return nil }
