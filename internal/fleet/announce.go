package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"runnel/internal/pause"
	"runnel/rpc/rawjson"
	"runnel/tasks"
)

const (
	// announceInterval is how often a worker announces itself. Others forget it after several intervals
	// without a word.
	announceInterval = 4 * time.Second
	// announcePace is the shortest time between two announcements.
	announcePace = time.Second
)

// announce announces the worker to the owners whose tasks it runs, until ctx ends, and obeys people's orders
// except those before.
func (w *Worker) announce(ctx context.Context, before map[string]bool) {
	others, stop := w.Set.Tools.Changes().Watch() // the tools of upstreams
	defer stop()
	// An announcement that is cut off might arrive after the last one, which withdraws the worker.
	told := context.WithoutCancel(ctx)
	for failed := false; ctx.Err() == nil; {
		tools := w.offerers()
		w.mu.Lock()
		w.self.Tools = tools
		w.mu.Unlock()
		err := w.tell(told, w.selfFor)
		if err != nil && !failed {
			w.Log.Warn().Err(err).Msg("announcing this worker to others")
		}
		failed = err != nil
		before = w.obey(ctx, before)
		pause.For(ctx, announcePace)
		select {
		case <-w.changed:
		case <-others:
		case <-time.After(announceInterval):
		case <-ctx.Done():
		}
	}
	// The announcement is withdrawn, or it would stay until it expires.
	_ = w.tell(told, func(string) *tasks.Worker { return nil })
}

// obey does what people ask of workers. before has the ids of the drains that were there at the first look,
// when it is nil.
func (w *Worker) obey(ctx context.Context, before map[string]bool) map[string]bool {
	orders, err := w.queue(w.Owners[0]).Orders(ctx)
	if err != nil {
		return before // the announcement has failed, too, and says so
	}
	first := before == nil
	if first {
		before = map[string]bool{}
	}
	var paused []string
	for _, o := range orders {
		switch {
		case o.What == tasks.OrderPause:
			paused = append(paused, o.Name)
		case o.What == tasks.OrderDrain && first:
			before[o.ID] = true
		case o.What == tasks.OrderDrain && o.Name == w.self.Name && !before[o.ID]:
			w.Leave()
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Equal(paused, w.paused) {
		w.paused = paused
		w.Log.Info().Strs("paused", paused).
			Msg("the classes whose tasks are not taken have changed (runnel fleet pause)")
		if w.again != nil {
			w.again()
		}
	}
	return before
}

// tell announces something to all owners at the same time, so that a state that does not answer delays it
// only once.
func (w *Worker) tell(ctx context.Context, says func(owner string) *tasks.Worker) error {
	var all sync.WaitGroup
	failed := make(chan error, len(w.Runners))
	for owner := range w.Runners {
		all.Go(func() { failed <- w.queue(owner).Announce(ctx, says(owner)) })
	}
	all.Wait()
	close(failed)
	var err error
	for one := range failed {
		err = errors.Join(err, one)
	}
	return err
}

func (w *Worker) queue(owner string) tasks.Queue { return w.Queues.Open(owner).(tasks.Queue) }

// selfFor returns what an owner may know of the worker. The ids of other owners' tasks are left empty, since
// whoever knows an id can use it.
func (w *Worker) selfFor(owner string) *tasks.Worker {
	w.mu.Lock()
	defer w.mu.Unlock()
	self := w.self
	self.Paused = w.paused
	self.Foreign = owner != w.Owners[0]
	for _, o := range w.running {
		id := o.Task.ID
		if o.Task.Owner != owner {
			id = ""
		}
		if self.Running = append(self.Running, id); id != "" {
			self.Tasks = append(self.Tasks, tasks.Taken{ID: id, Tool: o.Task.Tool, Since: o.Since})
		}
	}
	return &self
}

// offerers returns the tools of the worker as it announces them, without secrets.
func (w *Worker) offerers() (list []tasks.Offerer) {
	for _, t := range w.Set.Tools.Tools() {
		name := t.Describe().Name
		o := tasks.Offerer{Class: w.class(t, name), Priority: w.Priorities[name]}
		if o.Class == "" {
			continue
		}
		if err := json.Unmarshal(w.Secrets.Set().JSON(rawjson.Encode(t.Describe())), &o.Tool); err != nil {
			w.Log.Error().Err(err).Str("tool", name).Msg("a tool is not announced")
			continue
		}
		list = append(list, o)
	}
	return list
}
