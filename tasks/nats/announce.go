package nats

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"runnel/tasks"
	"runnel/tasks/engine"
)

// Announcements of workers are stored with the leases, and expire as they do.

// Announce implements tasks.Queue.
func (q queue) Announce(ctx context.Context, w *tasks.Worker) error {
	sp, err := q.open(ctx)
	if err != nil {
		return err
	}
	if w == nil {
		ctx, cancel := context.WithTimeout(ctx, ackTimeout)
		defer cancel()
		return sp.leases.Purge(ctx, jetstream.WithPurgeSubject(sp.announcement(sp.Keeper)))
	}
	says := *w
	says.Refused += int(sp.c.garbage.Load())
	data, err := json.Marshal(says)
	if err != nil {
		return err
	}
	if len(data) > maxMessage-4<<10 {
		return fmt.Errorf("the descriptions and schemas of the tools have %d bytes: a worker can announce "+
			"%d; make them shorter, or give some tools to another worker", len(data), maxMessage)
	}
	m := &nats.Msg{Subject: sp.announcement(sp.Keeper),
		Header: nats.Header{jetstream.MsgRollup: {jetstream.MsgRollupSubject},
			jetstream.MsgIDHeader: {uuid.NewString()}}, Data: data}
	_, err = sp.publish(ctx, m, jetstream.WithMsgTTL(engine.LeaseTTL))
	return err
}

// announcement is the subject of a worker's announcement, beside its lease.
func (sp *space) announcement(keeper string) string { return sp.alive + keeper + ".worker" }

// order is the subject of what people ask of workers.
func (sp *space) order(o tasks.Order) string {
	name := sha256.Sum256([]byte(o.Name)) // a name may hold anything
	return fmt.Sprintf("%sorder.%s.%x", sp.alive, o.What, name[:8])
}

// Order implements tasks.Queue.
func (q queue) Order(ctx context.Context, o tasks.Order) error {
	sp, err := q.open(ctx)
	if err != nil {
		return err
	}
	o.ID = uuid.NewString()
	data, err := json.Marshal(o)
	if err != nil {
		return err
	}
	m := &nats.Msg{Subject: sp.order(o), Header: rollup, Data: data}
	if o.What == tasks.OrderDrain {
		_, err = sp.publish(ctx, m, jetstream.WithMsgTTL(engine.LeaseTTL))
	} else {
		_, err = sp.publish(ctx, m)
	}
	return err
}

// Withdraw implements tasks.Queue.
func (q queue) Withdraw(ctx context.Context, o tasks.Order) error {
	sp, err := q.open(ctx)
	if err != nil {
		return err
	}
	return sp.leases.Purge(ctx, jetstream.WithPurgeSubject(sp.order(o)))
}

// Orders implements tasks.Queue.
func (q queue) Orders(ctx context.Context) (list []tasks.Order, err error) {
	sp, err := q.open(ctx)
	if err != nil {
		return nil, err
	}
	messages, err := sp.lastOf(ctx, sp.leaseName, sp.alive+"order.>")
	for _, m := range messages {
		var o tasks.Order
		if json.Unmarshal(m.Data, &o) == nil { // others may have written it
			list = append(list, o)
		}
	}
	return list, err
}

// Owners implements tasks.Queues: each has a stream of leases.
func (s *State) Owners(ctx context.Context) (owners []string, err error) {
	if err := s.Connect(ctx); err != nil {
		return nil, err
	}
	streams := s.c.js.ListStreams(ctx, jetstream.WithStreamListSubject(s.c.o.Prefix+"-alive.>"))
	for stream := range streams.Info() {
		owners = append(owners, stream.Config.Metadata[ownerMember])
	}
	if err := streams.Err(); err != nil && !errors.Is(err, jetstream.ErrEndOfData) {
		return nil, unreachable(err)
	}
	slices.Sort(owners)
	return owners, nil
}

// Stored implements tasks.Queue.
func (q queue) Stored(ctx context.Context) (tasks.Storage, error) {
	sp, err := q.open(ctx)
	if err != nil {
		return tasks.Storage{}, err
	}
	return sp.stored(ctx)
}

func (sp *space) stored(ctx context.Context) (tasks.Storage, error) {
	stream, err := sp.c.js.Stream(ctx, sp.name)
	if err != nil {
		return tasks.Storage{}, unreachable(err)
	}
	info := stream.CachedInfo()
	stored := tasks.Storage{Bytes: int64(info.State.Bytes), Limit: max(info.Config.MaxBytes, 0),
		Replicas: info.Config.Replicas, Current: 1}
	if info.Cluster != nil { // the one that has answered leads it
		for _, replica := range info.Cluster.Replicas {
			if replica.Current && !replica.Offline {
				stored.Current++
			}
		}
	}
	return stored, nil
}

// Fleet implements tasks.Queue.
func (q queue) Fleet(ctx context.Context) (list []tasks.Worker, waits map[string]tasks.Waiting, err error) {
	sp, err := q.open(ctx)
	if err != nil {
		return nil, nil, err
	}
	messages, err := sp.lastOf(ctx, sp.leaseName, sp.announcement("*"))
	if err != nil {
		return nil, nil, err
	}
	for _, m := range messages {
		var w tasks.Worker
		if err := json.Unmarshal(m.Data, &w); err != nil {
			sp.Log.Error().Str("subject", m.Subject).Str("owner", sp.Owner).Err(err).
				Msg("the announcement of a worker cannot be read, and is skipped")
			continue
		}
		list = append(list, w)
	}
	slices.SortFunc(list, func(a, b tasks.Worker) int {
		if n := strings.Compare(a.Host, b.Host); n != 0 {
			return n
		}
		return a.PID - b.PID
	})
	waits, err = sp.Line(ctx)
	return list, waits, err
}
