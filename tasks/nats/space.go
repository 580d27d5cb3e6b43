package nats

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

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
