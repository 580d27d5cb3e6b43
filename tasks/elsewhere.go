package tasks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"runnel/rpc/mcp"
)

// A task may be run by another process on the same Shared store. Its status is read there, and who wants it
// cancelled asks there. Nothing tells of a change, so both sides look again and again, while they have a reason to.

const (
	// watchInterval is how often a process that runs tasks looks for what others ask of it.
	watchInterval = 250 * time.Millisecond
	// pollFirst and pollMost are how often a waiting request looks for the end of a task elsewhere: soon at first, then less.
	pollFirst = 50 * time.Millisecond
	pollMost  = 500 * time.Millisecond
)

// ErrAsked tells that a task is asked to cancel, but has not ended yet.
var ErrAsked = errors.New("the task is asked to cancel, but the process that runs it has not done it")

// endElsewhere returns a task that this process does not run once it has ended.
func (r *Runner) endElsewhere(ctx context.Context, id string) (Task, error) {
	for wait := pollFirst; ; wait = min(2*wait, pollMost) {
		t, err := r.Get(ctx, id)
		if err != nil || t.Status.Terminal() {
			return t, err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return t, context.Cause(ctx)
		}
	}
}

// cancelElsewhere asks for a task's cancellation and returns the task once it has ended, with ErrEnded if it ended otherwise.
func (r *Runner) cancelElsewhere(ctx context.Context, id string) (Task, error) {
	shared, ok := r.o.Store.(Shared)
	if !ok {
		panic("internal error: a task that runs nowhere")
	}
	if err := shared.Ask(ctx, r.o.Owner, id); err != nil {
		return Task{}, err
	}
	wait, cancel := context.WithTimeout(ctx, r.o.AskTimeout) // from here on: to ask may have waited for the state
	defer cancel()
	t, err := r.endElsewhere(wait, id)
	if err != nil && ctx.Err() == nil && wait.Err() != nil {
		return t, fmt.Errorf("%w in %v", ErrAsked, r.o.AskTimeout)
	}
	if errors.Is(err, ErrNotFound) {
		t.ID, t.Status, err = id, mcp.TaskCancelled, nil // a call without a handle, which is forgotten when it ends
	}
	if err == nil && t.Status != mcp.TaskCancelled {
		err = ErrEnded
	}
	return t, err
}

// watch starts to look for what others ask, until nothing runs any more that they can see. r.mu is held.
func (r *Runner) watch() {
	if shared, ok := r.o.Store.(Shared); ok && !r.watching {
		r.watching = true
		r.Go(func(ctx context.Context) { r.heed(ctx, shared) })
	}
}

// heed cancels the tasks of this process that others ask to cancel, and stops those that others have ended.
func (r *Runner) heed(ctx context.Context, shared Shared) {
	failed := false
	for r.watched() {
		select {
		case <-time.After(watchInterval):
		case <-ctx.Done():
			return
		}
		lost, err := shared.Lost(ctx)
		ids, unread := shared.Asked(ctx)
		err = errors.Join(err, unread)
		if err != nil && !failed && ctx.Err() == nil {
			r.o.Log.Warn().Err(err).Msg("looking for what other runnels ask and have done")
		}
		failed = err != nil
		for _, id := range lost {
			if run := r.Running(id); run != nil {
				r.Go(func(context.Context) { run.cutOff(ErrTaken) })
			}
		}
		for _, id := range ids {
			switch run := r.asked(id); {
			case run == nil:
			case run.Task().Detached: // always by another one
				run.Cancel("cancelled by the client")
			default:
				run.Cancel("cancelled by the client, by another runnel")
			}
		}
	}
}

// asked is the run that others ask something of, nil if it has ended.
func (r *Runner) asked(id string) *Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	if run := r.hidden[id]; run != nil {
		return run
	}
	return r.live[id]
}

// watched reports whether there is something to watch for, and else that nobody watches any more.
func (r *Runner) watched() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.watching = len(r.live)+len(r.hidden) > 0
	return r.watching
}
