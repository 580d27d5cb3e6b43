package nats

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"runnel/internal/pause"
	"runnel/tasks"
	"runnel/tasks/engine"
)

// schema is the version of what stands in a stream.
const (
	schema       = "2"
	schemaMember = "runnel.schema"
	ownerMember  = "runnel.owner"
	makerMember  = "runnel.maker" // the process that has made a stream of tasks
	// Longer than a lease: a process that could not write for so long has lost its tasks.
	dedupeWindow = 2 * time.Minute
)

// Open implements engine.Engine.
func (c *connection) Open(ctx context.Context, of *engine.Space) (engine.Driver, engine.Queue, error) {
	prefix := c.o.Prefix
	sp := &space{
		Space: of, c: c, name: prefix + "_" + of.Name,
		root: prefix + "." + of.Name + ".", wakes: prefix + "-wake." + of.Name + ".",
		asks:  prefix + "-ask." + of.Name + ".",
		alive: prefix + "-alive." + of.Name + ".", work: prefix + "-work." + of.Name + ".",
		leaseName: prefix + "-alive_" + of.Name, queueName: prefix + "-work_" + of.Name,
		consumers: map[string]jetstream.Consumer{},
		restoring: make(chan struct{}, 1), admitting: make(chan struct{}, 1),
	}
	var err error
	if sp.stream, sp.leases, err = sp.openStreams(ctx); err != nil {
		return nil, nil, err
	}
	sp.maxBytes = sp.stream.CachedInfo().Config.MaxBytes
	sp.asked, err = c.nc.Subscribe(sp.asks+sp.Keeper, sp.hearAsk)
	return sp, sp, err
}

func (sp *space) openStreams(ctx context.Context) (stream, leases jetstream.Stream, err error) {
	share, least := int64(-1), int64(leastBytes)
	begun := time.Now()
	limited := func(ctx context.Context, o *jetstream.StreamConfig) (err error) {
		if share < 0 {
			share, err = sp.share(ctx)
		}
		if share < 0 { // the account is not limited
			share, least = defaultShare, leastShare
		}
		o.MaxBytes, o.Metadata[makerMember] = share, sp.Keeper
		return err
	}
	byMaker := func(context.Context, *jetstream.StreamConfig) error {
		if sp.mayFinish(stream) {
			return nil
		}
		return errBeingMade
	}
	for {
		stream, err = sp.openStream(ctx, sp.name, sp.root+">", limited)
		if err == nil {
			if leases, err = sp.openStream(ctx, sp.leaseName, sp.alive+">", byMaker); err == nil {
				return stream, leases, nil
			}
		}
		refused, ok := errors.AsType[*jetstream.APIError](err)
		switch {
		case errors.Is(err, errBeingMade):
			begun = time.Now() // what follows is a new try
			err = tasks.Trouble{Err: engine.Away{Err: err}}
		case ok && isFull(refused):
			// Servers reserve more than they have for owners that are opened at the same time, and then
			// refuse all that is made or changed, until some of it is given back.
			err = explain(refused)
			if stream != nil {
				if err := sp.giveBack(ctx, stream); err != nil {
					return nil, nil, err
				}
			}
			share /= 2 // other streams may have reserved more, or the disk is small
			if share >= least && sp.c.o.MaxBytes == 0 {
				continue
			}
			if share > 0 && least == leastShare {
				share = 0 // no limit
				continue
			}
			if time.Since(begun) > givingBack {
				return nil, nil, err
			}
		case ok && refused.ErrorCode == notCreated && time.Since(begun) < givingBack:
		default:
			return nil, nil, err
		}
		if !pause.For(ctx, writeAgain) {
			return nil, nil, err
		}
		share = -1
	}
}

// errBeingMade says that another process has made the stream of an owner's tasks, and none for leases yet.
var errBeingMade = errors.New("another process is opening the state")

// mayFinish reports whether this process may make the stream for leases, which says that the servers have
// room for both, or give back the stream of tasks: the process that has made that, or any if the maker seems
// to have died. Otherwise one could make it while the other gives back.
func (sp *space) mayFinish(stream jetstream.Stream) bool {
	info := stream.CachedInfo()
	return info.Config.Metadata[makerMember] == sp.Keeper ||
		info.TimeStamp.Sub(info.Created) > makerTimeout // both by the server's clock
}

// giveBack deletes the stream of an owner that has none for leases, so that nothing was stored yet.
func (sp *space) giveBack(ctx context.Context, stream jetstream.Stream) error {
	if !sp.mayFinish(stream) || stream.CachedInfo().State.Msgs > 0 {
		return nil
	}
	_, err := sp.c.js.Stream(ctx, sp.leaseName)
	if errors.Is(err, jetstream.ErrStreamNotFound) { // no other process was quicker
		err = sp.c.js.DeleteStream(ctx, sp.name)
	}
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	return busy(err)
}

const (
	// defaultShare is how many bytes the owner's tasks may take if neither the URL nor the account limits
	// them: else one owner could fill the servers for all.
	defaultShare = 10 << 30
	// givingBack is how long others may take to give back what was reserved twice.
	givingBack = 2 * time.Second
	// makerTimeout is how long the process that has made an owner's first stream may take to make the second.
	// After that it counts as dead.
	makerTimeout = 5 * time.Second
	// leastShare is the smallest limit. Servers with less room than that have none.
	leastShare = 256 << 20
)

// share returns how many bytes the owner's tasks may take in a stream that is made; negative if the account
// is not limited.
func (sp *space) share(ctx context.Context) (int64, error) {
	if sp.c.o.MaxBytes > 0 {
		return sp.c.o.MaxBytes, nil
	}
	account, err := ask(ctx, func(ctx context.Context) (*jetstream.AccountInfo, error) {
		account, err := sp.c.js.AccountInfo(ctx)
		return account, busy(err)
	})
	if err != nil {
		return 0, err
	}
	limits, replicas := account.Limits, int64(sp.c.o.Replicas)
	if tier, ok := account.Tiers[fmt.Sprint("R", replicas)]; ok { // its limit counts each byte once
		limits, replicas = tier.Limits, 1
	}
	if limits.MaxStore <= 0 {
		return -1, nil
	}
	return limits.MaxStore / replicas / 2, nil
}

// restore makes the owner's streams again if the servers have lost them: a server's folder may have been a
// temporary one, or the streams were deleted. The tasks that were in them are lost: the next Sweep of each
// process finds those that it runs.
func (sp *space) restore(ctx context.Context) error {
	select {
	case sp.restoring <- struct{}{}:
		defer func() { <-sp.restoring }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	missing := func(name string) (bool, error) {
		_, err := ask(ctx, func(ctx context.Context) (jetstream.Stream, error) {
			stream, err := sp.c.js.Stream(ctx, name)
			return stream, busy(err)
		})
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			return true, nil
		}
		return false, err
	}
	lost, err := missing(sp.name)
	if err != nil {
		return err
	}
	if _, _, err := sp.openStreams(ctx); err != nil { // the ones that sp has are known by their names alone
		return err
	}
	sp.mu.Lock()
	queued := sp.queue != nil
	sp.mu.Unlock()
	if queued {
		_ = sp.lostQueue(nil)
		if _, err := sp.openQueue(ctx); err != nil {
			return err
		}
	}
	if lost {
		sp.Log.Error().Str("stream", sp.name).
			Msg("the servers of the state had lost the stream, or it was deleted: it is made again, and " +
				"its tasks are lost. " +
				"A nats-server keeps them where -sd names a folder")
		sp.places.clear()
	}
	return nil
}

// openStream returns a stream of the owner, and makes it if there is none. special changes the configuration
// of a new one.
func (sp *space) openStream(ctx context.Context, name, subjects string,
	special func(context.Context, *jetstream.StreamConfig) error) (jetstream.Stream, error) {
	return ask(ctx, func(ctx context.Context) (jetstream.Stream,
		error) {
		return sp.tryStream(ctx, name, subjects, special)
	})
}

func (sp *space) tryStream(ctx context.Context, name, subjects string,
	special func(context.Context, *jetstream.StreamConfig) error) (jetstream.Stream, error) {
	js := sp.c.js
	stream, err := js.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		config := jetstream.StreamConfig{
			Name: name, Subjects: []string{subjects}, Description: "tasks of runnel",
			Storage: jetstream.FileStorage, Replicas: sp.c.o.Replicas, Discard: jetstream.DiscardNew,
			// Runnel needs none.
			AllowDirect: true, AllowRollup: true, AllowMsgTTL: true, Duplicates: dedupeWindow,
			MaxConsumers: 1,
			Metadata:     map[string]string{schemaMember: schema, ownerMember: sp.Owner},
		}
		if err := special(ctx, &config); err != nil {
			return nil, err
		}
		stream, err = js.CreateStream(ctx, config)
		// Another runnel was quicker, with other options.
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			stream, err = js.Stream(ctx, name)
		}
	}
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return nil, tasks.Trouble{Err: fmt.Errorf("its JetStream does not answer: start it with -js "+
			"(nats-server -js -sd FOLDER): %w", err)}
	case errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return nil, tasks.Trouble{Err: fmt.Errorf("allow JetStream for the account (nsc edit account "+
			"--js-disk-storage 10G): %w", err)}
	case errors.Is(err, jetstream.ErrStreamNotFound): // it is being made, and this server has not heard of it
		return nil, unreachable(err)
	case err != nil:
		return nil, busy(err)
	}
	config := stream.CachedInfo().Config
	found := config.Metadata[schemaMember]
	if found == "1" && config.Metadata[ownerMember] == sp.Owner {
		if stream, err = sp.update(ctx, config); err != nil {
			return nil, busy(err)
		}
		found = schema
	}
	switch {
	case found == "":
		return nil, fmt.Errorf("the stream %s is not one that runnel has made: name another prefix "+
			"(?prefix=NAME)", name)
	case config.Metadata[ownerMember] != sp.Owner:
		return nil, fmt.Errorf("the stream %s belongs to another owner", name)
	}
	if err := engine.CheckSchema("the stream "+name, found, schema); err != nil {
		return nil, err
	}
	return sp.adjust(ctx, stream)
}

// adjust gives a stream what the URL asks for, if it was made for another one. Replicas are never removed: a
// URL that names none would remove them.
func (sp *space) adjust(ctx context.Context, stream jetstream.Stream) (jetstream.Stream, error) {
	config := stream.CachedInfo().Config
	options := ""
	if config.Replicas < sp.c.o.Replicas {
		config.Replicas = sp.c.o.Replicas
		options += fmt.Sprint(" --replicas ", config.Replicas)
	}
	if limit := sp.c.o.MaxBytes; config.Name == sp.name && limit > 0 && config.MaxBytes != limit {
		config.MaxBytes = limit
		options += fmt.Sprint(" --max-bytes ", limit)
	}
	if options == "" {
		return stream, nil
	}
	var adjusted jetstream.Stream
	var err error
	cluster := stream.CachedInfo().Cluster
	if config.Replicas > 1 && (cluster == nil || cluster.Name == "") {
		// It would take the number, and replicate nothing.
		err = errors.New("its server is not part of a cluster")
	} else if adjusted, err = sp.c.js.UpdateStream(ctx, config); err != nil {
		err = busy(err)
	}
	if err != nil && !errors.Is(err, tasks.ErrBusy) {
		return nil, tasks.Trouble{Err: fmt.Errorf("the stream %s is not as the URL asks: ask for what it "+
			"has, or let it be changed (nats stream edit %s%s): %w",
			config.Name, config.Name, options, err)}
	}
	return adjusted, err
}

// update makes a stream one of this version. In version 1 a mark was PREFIX.OWNER.ID.live.KEEPER. Nobody
// finds the marks that runnels of that version make later, so they must end first.
func (sp *space) update(ctx context.Context, config jetstream.StreamConfig) (jetstream.Stream, error) {
	for hidden, kind := range map[bool]string{false: "live.", true: "hidden."} {
		old, err := sp.subjects(ctx, config.Name, sp.subject("*", kind+"*"))
		if err != nil {
			return nil, err
		}
		for _, subject := range old {
			id, keeper, _ := strings.Cut(strings.TrimPrefix(subject, sp.root), "."+kind)
			r, err := sp.Read(ctx, id)
			if err == nil {
				_, err = sp.publish(ctx, nats.NewMsg(sp.marks(id, keeper, hidden)), sp.expiring(&r.Task))
			}
			if err != nil && !errors.Is(err, tasks.ErrNotFound) {
				return nil, err
			}
		}
	}
	config.Metadata = maps.Clone(config.Metadata)
	config.Metadata[schemaMember] = schema
	return sp.c.js.UpdateStream(ctx, config)
}
