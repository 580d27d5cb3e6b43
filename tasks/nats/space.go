package nats

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"runnel/tasks"
)

// space is what this process has of an owner's stream.
type space struct {
	s      *State
	owner  string
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

	ctx  context.Context // until Close
	stop context.CancelFunc
	all  sync.WaitGroup

	mu       sync.Mutex
	live     map[string]*keeping  // by id: the tasks that this process runs
	wanted   map[string]struct{}  // of them, those that others ask to cancel
	fenced   map[string]struct{}  // of them, those that others have ended
	renewed  time.Time            // when the lease was last stored
	doubtful map[string]struct{}  // tasks that were refused, of which something may be stored
	missed   map[string]time.Time // processes without a lease, and since when this one knows

	strays map[string]string // tasks of this process that it did not run when it looked last

	queue     jetstream.Stream              // nil until it is needed
	consumers map[string]jetstream.Consumer // of the queue, by class
	line      *line                         // what waits, as it was looked at last
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

func (s *State) openSpace(ctx context.Context, owner string) (_ *space, err error) {
	name := owner
	if !isToken(owner) || strings.HasPrefix(owner, "_") {
		sum := sha256.Sum256([]byte(owner))
		name = "_" + hex.EncodeToString(sum[:16])
	}
	sp := &space{
		s: s, owner: owner, name: s.o.Prefix + "_" + name,
		root: s.o.Prefix + "." + name + ".", wakes: s.o.Prefix + "-wake." + name + ".", asks: s.o.Prefix + "-ask." + name + ".",
		alive: s.o.Prefix + "-alive." + name + ".", work: s.o.Prefix + "-work." + name + ".",
		leaseName: s.o.Prefix + "-alive_" + name, queueName: s.o.Prefix + "-work_" + name, consumers: map[string]jetstream.Consumer{},
		live: map[string]*keeping{}, wanted: map[string]struct{}{}, fenced: map[string]struct{}{}, doubtful: map[string]struct{}{},
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	if sp.stream, err = sp.openStream(ctx, sp.name, sp.root+">", func(c *jetstream.StreamConfig) { c.MaxBytes = max(s.o.MaxState, 0) }); err != nil {
		return nil, err
	}
	if sp.leases, err = sp.openStream(ctx, sp.leaseName, sp.alive+">", func(*jetstream.StreamConfig) {}); err != nil {
		return nil, err
	}
	if err := sp.keepAlive(ctx); err != nil {
		return nil, err
	}
	return sp, nil
}

// openStream returns a stream of the owner, which is made if there is none; special sets what it has of its own.
func (sp *space) openStream(ctx context.Context, name, subjects string, special func(*jetstream.StreamConfig)) (jetstream.Stream, error) {
	js := sp.s.js
	stream, err := js.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		config := jetstream.StreamConfig{
			Name: name, Subjects: []string{subjects}, Description: "tasks of runnel",
			Storage: jetstream.FileStorage, Replicas: sp.s.o.Replicas, Discard: jetstream.DiscardNew,
			AllowDirect: true, AllowRollup: true, AllowMsgTTL: true, Duplicates: dedupeWindow, MaxConsumers: 1, // runnel needs none
			Metadata: map[string]string{schemaMember: schema, ownerMember: sp.owner},
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
	case config.Metadata[ownerMember] != sp.owner:
		return nil, fmt.Errorf("the stream %s belongs to another owner", name)
	}
	return stream, nil
}

func (sp *space) close() {
	sp.stop()
	sp.all.Wait()
	_ = sp.asked.Unsubscribe()
	ctx, cancel := context.WithTimeout(context.Background(), ackTimeout)
	defer cancel()
	_ = sp.leases.Purge(ctx, jetstream.WithPurgeSubject(sp.lease(sp.s.keeper))) // else it runs out by itself
}

// subject names what of a task.
func (sp *space) subject(id, what string) string { return sp.root + id + "." + what }

// The lease of a process is a message that expires.
func (sp *space) lease(keeper string) string { return sp.alive + keeper }

// rollup makes a message the only one of its subject.
var rollup = nats.Header{jetstream.MsgRollup: {jetstream.MsgRollupSubject}}

// forever is a ttl beyond which a message needs none.
const forever = 10 * 365 * 24 * time.Hour

// graceTTL is how long what belongs to a task outlives it: its end is being stored.
const graceTTL = time.Minute

// expiring sets how long a message of a task is kept.
func (sp *space) expiring(t *tasks.Task) jetstream.PublishOpt {
	left := t.TTL - sp.s.o.Now().Sub(t.CreatedAt) + graceTTL
	if t.TTL > forever {
		left = forever
	}
	return jetstream.WithMsgTTL(max(left, time.Second).Round(time.Second))
}

// wake tells whoever watches a task that something was stored.
func (sp *space) wake(id string) { _ = sp.s.nc.Publish(sp.wakes+id, nil) } // who does not hear it looks by itself
