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
	_ = sp.leases.Purge(ctx, jetstream.WithPurgeSubject(sp.lease(sp.Keeper))) // else it runs out by itself
}

// Alive implements engine.Store.
func (sp *space) Alive(ctx context.Context) ([]string, error) {
	leases, err := sp.subjects(ctx, sp.leaseName, sp.lease("*"))
	for i := range leases {
		leases[i] = strings.TrimPrefix(leases[i], sp.alive)
	}
	return leases, err
}

// mark is what stands in the stream while a process runs a task.
func mark(m engine.Mark) string {
	if m.Hidden {
		return "hidden." + m.Keeper
	}
	return "live." + m.Keeper
}

// Marks implements engine.Store.
func (sp *space) Marks(ctx context.Context) (marks []engine.Mark, err error) {
	for _, kind := range []string{"live.*", "hidden.*"} {
		subjects, err := sp.subjects(ctx, sp.name, sp.subject("*", kind))
		if err != nil {
			return nil, err
		}
		for _, subject := range subjects {
			if parts := strings.Split(strings.TrimPrefix(subject, sp.root), "."); len(parts) == 3 && parts[2] != engine.QueueKeeper { // ID.live.KEEPER
				marks = append(marks, engine.Mark{ID: parts[0], Keeper: parts[2], Hidden: parts[1] == "hidden"})
			}
		}
	}
	return marks, nil
}

// Waiting implements engine.Queue.
func (sp *space) Waiting(ctx context.Context) ([]string, error) {
	marked, err := sp.subjects(ctx, sp.name, sp.subject("*", "live."+engine.QueueKeeper))
	for i, subject := range marked {
		marked[i], _, _ = strings.Cut(strings.TrimPrefix(subject, sp.root), ".")
	}
	return slices.DeleteFunc(marked, func(id string) bool { return !engine.IsToken(id) }), err
}

// putMark stores a mark.
func (sp *space) putMark(ctx context.Context, r *engine.Record, hidden bool) error {
	m := engine.Mark{ID: r.ID, Keeper: r.Stored.Keeper, Hidden: hidden}
	_, err := sp.publish(ctx, nats.NewMsg(sp.subject(m.ID, mark(m))), sp.expiring(&r.Task))
	return err
}

// Unmark implements engine.Store.
func (sp *space) Unmark(ctx context.Context, m engine.Mark) error {
	ctx, cancel := context.WithTimeout(ctx, ackTimeout)
	defer cancel()
	if err := sp.stream.Purge(ctx, jetstream.WithPurgeSubject(sp.subject(m.ID, mark(m)))); err != nil {
		return unreachable(err)
	}
	return nil
}

// DropExpired implements engine.Store: the server does it.
func (sp *space) DropExpired(context.Context) error { return nil }
