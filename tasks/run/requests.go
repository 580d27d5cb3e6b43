package run

import (
	"context"
	"maps"

	"runnel/tasks"
)

// Other processes on the same state can ask this process to cancel a task that it runs. It looks for such
// requests as long as it runs something that they can see.

// startWatching starts to look for requests of other processes, if that has not been started
// and there are others. r.mu is held.
func (r *Runner) startWatching() {
	if !r.watching && r.shared != nil {
		r.watching = true
		r.goLocked(r.watchRequests)
	}
}

// watchRequests cancels the tasks of this process that others ask to cancel, and aborts those that others
// have ended, until nothing that they can see runs any more.
func (r *Runner) watchRequests(ctx context.Context) {
	// Each is ended once, in a goroutine: its client or the state may delay that for long.
	requested := map[*Run]bool{}
	endOnce := func(run *Run, end func(run *Run)) {
		if run != nil && !requested[run] {
			requested[run] = r.Go(func(context.Context) { end(run) })
		}
	}
	for failed := false; ctx.Err() == nil && r.keepWatching(); {
		asked, fenced, err := r.shared.Heed(ctx)
		if err != nil && !failed && ctx.Err() == nil {
			r.o.Log.Warn().Err(err).Msg("looking for requests of other runnels")
		}
		failed = err != nil
		maps.DeleteFunc(requested, func(run *Run, _ bool) bool { return run.past(ended) })
		for _, id := range fenced {
			endOnce(r.Running(id), func(run *Run) { run.abort(tasks.ErrFenced) })
		}
		for _, id := range asked {
			endOnce(r.cancellable(id), func(run *Run) {
				message := "cancelled by the client"
				if !run.Task().Detached { // a detached task is always cancelled by another process
					message = "cancelled from elsewhere on this state, as by runnel tasks cancel, top or ui"
				}
				run.Cancel(message)
			})
		}
	}
}

// cancellable returns the run that other processes ask to cancel, nil if it has ended.
func (r *Runner) cancellable(id string) *Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	if run := r.hidden[id]; run != nil {
		return run
	}
	return r.live[id]
}

// keepWatching sets watching to whether something runs that other processes can see, and returns it.
func (r *Runner) keepWatching() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.watching = len(r.live)+len(r.hidden) > 0
	return r.watching
}
