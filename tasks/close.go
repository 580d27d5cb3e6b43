package tasks

import (
	"context"
	"maps"
	"slices"
	"sync"
)

// Wait returns when no task runs any more, or with ctx's error.
func (r *Runner) Wait(ctx context.Context) error {
	idle := make(chan struct{})
	go func() { r.all.Wait(); close(idle) }()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Idle reports whether no task runs, or is still being stored.
func (r *Runner) Idle() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.live)+len(r.working)+len(r.hidden) == 0
}

// Close cancels all that runs and returns when it has ended: no tool's goroutine and no child is left, but for what GiveUp leaves behind.
func (r *Runner) Close() {
	r.mu.Lock() // see goWatch
	r.end()
	r.mu.Unlock()
	_ = r.Wait(r.givenUp) // its error says that GiveUp has been called
	r.watchers.Wait()
}

// GiveUp lets Close return though there is work that has not: nothing can stop a Go function that does not look at its context.
// The tasks fail as all do that Close stops.
func (r *Runner) GiveUp() {
	r.mu.Lock()
	working := slices.Collect(maps.Keys(r.working))
	r.mu.Unlock()
	var cut sync.WaitGroup // each waits for its client
	for _, run := range working {
		if !run.worked.IsSet() { // else its end is being stored, and finish waits for that
			r.o.Log.Error().Str("taskId", run.id).Str("owner", r.o.Owner).Str("tool", run.spec.Tool).Msg("a tool has not stopped: it is left behind")
		}
		cut.Go(func() { run.cutOff(errClosed) })
	}
	cut.Wait()
	r.giveUp()
}
