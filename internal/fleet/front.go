package fleet

import (
	"context"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"runnel/internal/pause"
	"runnel/rpc/rawjson"
	"runnel/tasks"
	"runnel/tasks/run"
	"runnel/tools"
	"runnel/tools/config"
	"runnel/tools/upstream"
)

// front gives an owner's tool set the tools of the workers of some classes.
type front struct {
	queue   tasks.Queue
	classes []string
	set     *upstream.Set
	runner  *run.Runner
	log     zerolog.Logger

	begin sync.Once
	known chan struct{} // closed after the first look for workers
}

const (
	// fleetInterval is how often it looks for workers.
	fleetInterval = time.Second
	// fleetWait is how long a list waits for them.
	fleetWait = 5 * time.Second
)

// Lend makes a set have the tools of workers, if the config asks for them.
func Lend(conf *config.Config, set *upstream.Set, store tasks.State, runner *run.Runner, log zerolog.Logger) {
	queue, ok := store.Open(conf.Server.Owner).(tasks.Queue)
	if !ok || len(conf.Fleet.Classes) == 0 {
		return
	}
	f := &front{queue: queue, classes: conf.Fleet.Classes, set: set, runner: runner, log: log,
		known: make(chan struct{})}
	set.Fleet = f.need
}

// need waits until the tools of the workers are known. The first call starts the search, so that a client
// that only probes the server opens no connection.
func (f *front) need(ctx context.Context) {
	f.begin.Do(func() {
		if !f.runner.Go(f.follow) {
			close(f.known)
		}
	})
	select {
	case <-f.known:
	case <-time.After(fleetWait):
	case <-ctx.Done():
	}
}

// follow looks for workers once per fleetInterval, until ctx ends.
func (f *front) follow(ctx context.Context) {
	var before []tasks.Offerer
	for failed, asked := false, false; ; asked = true {
		workers, _, err := f.queue.Fleet(ctx)
		if err != nil && !failed && ctx.Err() == nil {
			f.log.Warn().Err(err).Msg("looking for workers")
		}
		failed = err != nil
		// On an error the last ones are kept: they may well be there.
		if now := f.offerers(workers); err == nil && !reflect.DeepEqual(now, before) {
			before = now
			f.set.Lend(f.tools(now))
		}
		if !asked {
			close(f.known)
		}
		if !pause.For(ctx, fleetInterval) {
			return
		}
	}
}

// offerers returns the tools of the workers of these classes, each once. If two workers describe a tool
// differently, the first one counts.
func (f *front) offerers(workers []tasks.Worker) (list []tasks.Offerer) {
	for _, w := range workers {
		for _, t := range w.Tools {
			same := func(other tasks.Offerer) bool { return other.Name == t.Name }
			if slices.Contains(f.classes, t.Class) && rawjson.IsObject(t.InputSchema) &&
				!slices.ContainsFunc(list, same) {
				list = append(list, t)
			}
		}
	}
	return list
}

func (f *front) tools(list []tasks.Offerer) (made []tools.Tool) {
	for _, t := range list {
		offer := tasks.Offer{Class: t.Class, Priority: t.Priority,
			Timeout: time.Duration(config.DefaultQueueTimeout)}
		made = append(made, tools.NewOffered(t.Tool, offer))
	}
	return made
}
