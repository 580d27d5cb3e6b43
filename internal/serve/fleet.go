package serve

import (
	"context"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"runnel/rpc/rawjson"
	"runnel/tasks"
	"runnel/tools"
	"runnel/tools/config"
	"runnel/tools/upstream"
)

// fleet serves the tools of workers of some classes to an owner.
type fleet struct {
	queue   tasks.Queue
	owner   string
	classes []string
	set     *upstream.Set
	runner  *tasks.Runner
	log     zerolog.Logger

	begin sync.Once
	known chan struct{} // closed when the workers have been asked for once
}

const (
	// fleetInterval is how often the workers are asked for.
	fleetInterval = time.Second
	// fleetWait is how long a list waits for them.
	fleetWait = 5 * time.Second
)

// lend lets a set have the tools of workers, if the config asks for them.
func lend(conf *config.Config, set *upstream.Set, store tasks.State, runner *tasks.Runner, log zerolog.Logger) {
	queue, ok := store.(tasks.Queue)
	if !ok || len(conf.Fleet.Classes) == 0 {
		return
	}
	f := &fleet{queue: queue, owner: conf.Server.Owner, classes: conf.Fleet.Classes, set: set, runner: runner, log: log, known: make(chan struct{})}
	set.Fleet = f.need
}

// need waits until it is known what the workers have. They are asked for from the first time on: a probe opens no connection.
func (f *fleet) need(ctx context.Context) {
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

// follow asks for the workers again and again, until ctx ends.
func (f *fleet) follow(ctx context.Context) {
	var before []tasks.Offerer
	for failed, asked := false, false; ; asked = true {
		workers, _, err := f.queue.Fleet(ctx, f.owner)
		if err != nil && !failed && ctx.Err() == nil {
			f.log.Warn().Err(err).Msg("looking for workers")
		}
		failed = err != nil
		if now := f.offerers(workers); err == nil && !reflect.DeepEqual(now, before) { // else those before are kept: who cannot be asked may well be there
			before = now
			f.set.Lend(f.tools(now))
		}
		if !asked {
			close(f.known)
		}
		select {
		case <-time.After(fleetInterval):
		case <-ctx.Done():
			return
		}
	}
}

// offerers are the tools of workers that serve these classes, each once. Of two that differ, the first worker's is taken.
func (f *fleet) offerers(workers []tasks.Worker) (list []tasks.Offerer) {
	for _, w := range workers {
		for _, t := range w.Tools {
			same := func(other tasks.Offerer) bool { return other.Name == t.Name }
			if slices.Contains(f.classes, t.Class) && rawjson.IsObject(t.InputSchema) && !slices.ContainsFunc(list, same) {
				list = append(list, t)
			}
		}
	}
	return list
}

func (f *fleet) tools(list []tasks.Offerer) (made []tools.Tool) {
	for _, t := range list {
		made = append(made, tools.NewOffered(t.Tool, tasks.Offer{Class: t.Class, Timeout: time.Duration(config.DefaultQueueTimeout)}))
	}
	return made
}
