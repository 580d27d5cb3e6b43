package run

import (
	"bytes"
	"context"
	"sync"
	"time"

	"runnel/internal/pause"
	"runnel/tasks"
)

// tallyPause is how long a process waits that another one was faster than: some times as long as a change
// takes.
const tallyPause = 2 * time.Millisecond

// tallies are the values of Tally where the state keeps none.
type tallies struct {
	mu     sync.Mutex
	values map[string][]byte
}

// Tally changes a small value of the owner that all processes of the state share: what is used up of a
// budget. It is kept for tasks.SessionTTL after its last change, or in a state in memory until the process
// ends. change gets the value, nil if there is none, and returns the new one; it may be called several times,
// since another process may change the value first. Its error is returned, and changes nothing. id is a token
// of 64 letters, digits, _ and - at most.
func (r *Runner) Tally(ctx context.Context, id string, change func(old []byte) ([]byte, error)) error {
	store, ok := r.store.(tasks.Sessions) // which keeps whatever is small, by id and version
	if !ok {
		r.tallies.mu.Lock()
		defer r.tallies.mu.Unlock()
		value, err := change(r.tallies.values[id])
		if err != nil {
			return err
		}
		if r.tallies.values == nil {
			r.tallies.values = map[string][]byte{}
		}
		r.tallies.values[id] = value
		return nil
	}
	for {
		old, version, err := store.Session(ctx, id)
		if err != nil {
			return err
		}
		value, err := change(old)
		if err != nil || bytes.Equal(value, old) {
			return err
		}
		put, err := store.PutSession(ctx, id, value, version)
		if err != nil || put > 0 {
			return err
		}
		if !pause.For(ctx, tallyPause) { // another process was faster
			return context.Cause(ctx)
		}
	}
}

// Tally is Runner.Tally for the owner of the run.
func (r *Run) Tally(ctx context.Context, id string, change func(old []byte) ([]byte, error)) error {
	return r.runner.Tally(ctx, id, change)
}
