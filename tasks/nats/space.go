package nats

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"runnel/tasks"
	"runnel/tasks/engine"
)

// space is the engine.Driver, and the engine.Queue: an owner's streams.
type space struct {
	*engine.Space
	c      *connection
	stream jetstream.Stream
	leases jetstream.Stream // a separate one: a full stream must not let leases run out
	name   string           // of the stream
	root   string           // PREFIX.OWNER.
	wakes  string           // PREFIX-wake.OWNER.
	asks   string           // PREFIX-ask.OWNER.
	alive  string           // PREFIX-alive.OWNER.
	work   string           // PREFIX-work.OWNER.
	asked  *nats.Subscription

	leaseName, queueName string // of streams

	restoring chan struct{} // capacity 1: full while lost streams are made again
	admitting chan struct{} // capacity 1: full while a task is counted and marked

	places  places
	turns   turns
	leaving sync.Map // the revisions of tasks that this process has offered or taken lately, by id: see leave

	mu        sync.Mutex
	queue     jetstream.Stream              // nil until it is needed
	consumers map[string]jetstream.Consumer // of the queue, by line
	reserved  time.Time                     // when the reserve was last looked for; zero = look
	passed    map[string]uint64             // by line, the message that its consumer had passed at the last sweep

	maxBytes    int64       // of the stream; negative = no limit
	keeps       atomic.Bool // this process has run tasks
	quiet       atomic.Bool // no task was live when this process last counted them
	sweeps      atomic.Bool // this process sweeps for all
	hearsLevels atomic.Bool // it hears when a high or low task is shown to workers
}

// subject returns the subject of something that is stored of a task.
func (sp *space) subject(id, what string) string { return sp.root + id + "." + what }

// rollup makes a message the only one of its subject.
var rollup = nats.Header{jetstream.MsgRollup: {jetstream.MsgRollupSubject}}

// expiring sets how long a message of a task is kept.
func (sp *space) expiring(t *tasks.Task) jetstream.PublishOpt {
	return jetstream.WithMsgTTL(sp.Lifetime(t).Round(time.Second))
}

// together calls functions at the same time, and returns the error of the first that fails.
func together(do ...func() error) error {
	failed := make([]error, len(do))
	var all sync.WaitGroup
	for i := range do {
		all.Go(func() { failed[i] = do[i]() })
	}
	all.Wait()
	return cmp.Or(failed...)
}

// queue is the store of an owner's tasks, which can wait for workers.
type queue struct{ *engine.Space }

var _ tasks.Queue = queue{}

// Open implements tasks.State.
func (s *State) Open(owner string) tasks.Store { return queue{s.Space(owner)} }

// open returns the owner's streams once they are open.
func (q queue) open(ctx context.Context) (*space, error) {
	if err := q.Ready(ctx); err != nil {
		return nil, err
	}
	return q.Driver.(*space), nil // connection.Open has made it
}

// Sessions of HTTP clients are stored with the leases, and expire as they do. The version of one is the
// sequence number of its message.

// session is the subject of an HTTP client's session.
func (sp *space) session(id string) string { return sp.alive + "session." + id }

// Session implements engine.Driver.
func (sp *space) Session(ctx context.Context, id string) (session []byte, version uint64, err error) {
	messages, err := sp.lastOf(ctx, sp.leaseName, sp.session(id))
	if err != nil || len(messages) == 0 {
		return nil, 0, err
	}
	return messages[0].Data, messages[0].Sequence, nil
}

// PutSession implements engine.Driver.
func (sp *space) PutSession(ctx context.Context, id string, session []byte, version uint64) (uint64, error) {
	m := &nats.Msg{Subject: sp.session(id), Data: session, Header: nats.Header{
		jetstream.MsgRollup: {jetstream.MsgRollupSubject}, jetstream.MsgIDHeader: {uuid.NewString()},
	}}
	seen, ttl := jetstream.WithExpectLastSequencePerSubject(version), jetstream.WithMsgTTL(tasks.SessionTTL)
	put, err := sp.publish(ctx, m, seen, ttl)
	// This process may have stored it itself, and the server that knew so has died.
	if errors.Is(err, tasks.ErrFenced) {
		stored, version, err := sp.Session(ctx, id)
		if err != nil || !bytes.Equal(stored, session) {
			version = 0
		}
		return version, err
	}
	return put, err
}

// DeleteSession implements engine.Driver.
func (sp *space) DeleteSession(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, ackTimeout)
	defer cancel()
	if err := sp.leases.Purge(ctx, jetstream.WithPurgeSubject(sp.session(id))); err != nil {
		return unreachable(err)
	}
	return nil
}
