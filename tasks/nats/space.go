package nats

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"runnel/tasks"
	"runnel/tasks/engine"
)

// space is the engine.Store, and the engine.Queue: an owner's streams.
type space struct {
	*engine.Space
	c      *connection
	stream jetstream.Stream
	leases jetstream.Stream // of its own: a stream that is full must not let leases run out
	name   string           // of the stream
	root   string           // PREFIX.OWNER.
	wakes  string           // PREFIX-wake.OWNER.
	asks   string           // PREFIX-ask.OWNER.
	alive  string           // PREFIX-alive.OWNER.
	work   string           // PREFIX-work.OWNER.
	asked  *nats.Subscription

	leaseName, queueName string // of streams

	mu        sync.Mutex
	queue     jetstream.Stream              // nil until it is needed
	consumers map[string]jetstream.Consumer // of the queue, by class
}

// schema is the version of what stands in a stream.
const (
	schema        = "1"
	schemaMember  = "runnel.schema"
	ownerMember   = "runnel.owner"
	dedupeWindow  = 2 * time.Minute // longer than a lease: who could not write for so long has lost its tasks
	maxMessage    = 1 << 20         // the server's default; a stretch with its header is far below it
	directTimeout = 5 * time.Second
)

// Open implements engine.Engine.
func (c *connection) Open(ctx context.Context, of *engine.Space) (engine.Store, engine.Queue, error) {
	prefix := c.o.Prefix
	sp := &space{
		Space: of, c: c, name: prefix + "_" + of.Name,
		root: prefix + "." + of.Name + ".", wakes: prefix + "-wake." + of.Name + ".", asks: prefix + "-ask." + of.Name + ".",
		alive: prefix + "-alive." + of.Name + ".", work: prefix + "-work." + of.Name + ".",
		leaseName: prefix + "-alive_" + of.Name, queueName: prefix + "-work_" + of.Name, consumers: map[string]jetstream.Consumer{},
	}
	var err error
	if sp.stream, err = sp.openStream(ctx, sp.name, sp.root+">", func(o *jetstream.StreamConfig) { o.MaxBytes = max(c.o.MaxState, 0) }); err != nil {
		return nil, nil, err
	}
	if sp.leases, err = sp.openStream(ctx, sp.leaseName, sp.alive+">", func(*jetstream.StreamConfig) {}); err != nil {
		return nil, nil, err
	}
	sp.asked, err = c.nc.Subscribe(sp.asks+sp.Keeper, sp.hearAsk)
	return sp, sp, err
}

// openStream returns a stream of the owner, which is made if there is none; special sets what it has of its own.
func (sp *space) openStream(ctx context.Context, name, subjects string, special func(*jetstream.StreamConfig)) (jetstream.Stream, error) {
	js := sp.c.js
	stream, err := js.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		config := jetstream.StreamConfig{
			Name: name, Subjects: []string{subjects}, Description: "tasks of runnel",
			Storage: jetstream.FileStorage, Replicas: sp.c.o.Replicas, Discard: jetstream.DiscardNew,
			AllowDirect: true, AllowRollup: true, AllowMsgTTL: true, Duplicates: dedupeWindow, MaxConsumers: 1, // runnel needs none
			Metadata: map[string]string{schemaMember: schema, ownerMember: sp.Owner},
		}
		special(&config)
		stream, err = js.CreateStream(ctx, config)
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // another runnel was quicker, with other options
			stream, err = js.Stream(ctx, name)
		}
	}
	if err != nil {
		return nil, err
	}
	config := stream.CachedInfo().Config
	switch found := config.Metadata[schemaMember]; {
	case found == "":
		return nil, fmt.Errorf("the stream %s is not one that runnel has made: name another prefix (?prefix=NAME)", name)
	case found != schema:
		return nil, fmt.Errorf("the stream %s has version %s, and this runnel knows %s: use the runnel that made it, or another prefix (?prefix=NAME)", name, found, schema)
	case config.Metadata[ownerMember] != sp.Owner:
		return nil, fmt.Errorf("the stream %s belongs to another owner", name)
	}
	return stream, nil
}

// subject names what of a task.
func (sp *space) subject(id, what string) string { return sp.root + id + "." + what }

// rollup makes a message the only one of its subject.
var rollup = nats.Header{jetstream.MsgRollup: {jetstream.MsgRollupSubject}}

// expiring sets how long a message of a task is kept.
func (sp *space) expiring(t *tasks.Task) jetstream.PublishOpt {
	return jetstream.WithMsgTTL(sp.Left(t).Round(time.Second))
}

// wake tells whoever watches a task that something was stored.
func (sp *space) wake(id string) { _ = sp.c.nc.Publish(sp.wakes+id, nil) } // who does not hear it looks by itself
