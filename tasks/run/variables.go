package run

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"runnel/internal/pause"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tasks"
)

// SetVariables merges a patch into the task's variables and returns them all. It fails with ErrEnded if the
// task has ended, with an *rpc.Error if the patch cannot be merged (CheckVariables), and if the variables
// cannot be stored.
func (r *Run) SetVariables(ctx context.Context, patch json.RawMessage) (json.RawMessage, error) {
	if err := tasks.CheckVariables(patch); err != nil {
		return nil, err
	}
	// One change at a time, so that the state never keeps an older version.
	r.changing.Lock()
	defer r.changing.Unlock()
	r.mu.Lock()
	if r.phase >= ending {
		r.mu.Unlock()
		return nil, tasks.ErrEnded
	}
	merged, has := r.task.Variables, r.kept
	r.mu.Unlock()
	patch = r.secrets.JSON(patch)
	var err error
	if has == handle {
		merged, err = r.runner.SetStored(ctx, r.id, patch)
	} else {
		merged, err = tasks.MergeVariables(merged, patch)
	}
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.task.Variables = merged
	return tasks.OwnVariables(merged), nil
}

// SetStored merges a patch into the variables of a stored task.
func (r *Runner) SetStored(ctx context.Context, id string, patch json.RawMessage) (json.RawMessage, error) {
	merged, err := r.store.SetVariables(ctx, id, patch)
	if err != nil && !errors.Is(err, tasks.ErrEnded) && !errors.Is(err, tasks.ErrFenced) &&
		!errors.As(err, new(*rpc.Error)) {
		err = rpc.Errorf(mcp.CodeInternalError, "the variables could not be stored: %v", err)
	}
	return merged, err
}

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
