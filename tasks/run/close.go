package run

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"runnel/internal/signal"
)

// counter is a sync.WaitGroup to which may be added while somebody waits: a WaitGroup may panic then.
type counter struct {
	count atomic.Int64
	none  signal.Broadcast
}

func (c *counter) Add() { c.count.Add(1) }

func (c *counter) Done() {
	if c.count.Add(-1) == 0 {
		c.none.Send()
	}
}

func (c *counter) Go(f func()) {
	c.Add()
	go func() {
		defer c.Done()
		f()
	}()
}

// Wait returns nil when the count is zero, or ctx's error.
func (c *counter) Wait(ctx context.Context) error {
	none, stop := c.none.Watch()
	defer stop()
	for c.count.Load() > 0 {
		select {
		case <-none:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Wait returns nil when no task runs any more, or ctx's error.
// Use it to let tasks end before Close.
func (r *Runner) Wait(ctx context.Context) error { return r.all.Wait(ctx) }

// Idle reports whether no task is running or being stored.
func (r *Runner) Idle() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.live)+len(r.working)+len(r.hidden) == 0
}

// Close cancels everything that runs and returns when it has ended: no goroutine of a tool and no child is
// left, except those that GiveUp leaves.
func (r *Runner) Close() {
	r.mu.Lock() // see goLocked
	r.end()
	r.mu.Unlock()
	_ = r.Wait(r.givenUp) // an error only says that GiveUp has been called
	r.watchers.Wait()
	r.recordAll()
}

// GiveUp lets Close return even if some work has not returned: nothing can stop a Go function that ignores
// its context. The tasks fail like all tasks that Close stops.
func (r *Runner) GiveUp() {
	r.mu.Lock()
	working := slices.Collect(maps.Keys(r.working))
	r.mu.Unlock()
	var aborted sync.WaitGroup // each may wait for its client
	for _, run := range working {
		if !run.worked.IsSet() { // otherwise its end is being stored, and finish waits for that
			r.o.Log.Error().Str("taskId", run.id).Str("owner", r.o.Owner).Str("tool", run.spec.Tool).Msg("a tool has not stopped: it is left behind")
		}
		aborted.Go(func() { run.abort(errClosed) })
	}
	aborted.Wait()
	r.giveUp()
}
