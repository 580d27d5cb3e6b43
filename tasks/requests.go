package tasks

import "context"

// Other processes on the same state can ask this process to cancel a task that it runs. So it looks for such requests as long as it runs
// something that they can see.

// startWatching starts to look for requests of others, until nothing that they can see runs any more. r.mu is held.
func (r *Runner) startWatching() {
	if !r.watching {
		r.watching = true
		r.goLocked(r.watchRequests)
	}
}

// watchRequests cancels the tasks of this process that others ask to cancel, and stops those that others have ended.
func (r *Runner) watchRequests(ctx context.Context) {
	for failed := false; ctx.Err() == nil && r.keepWatching(); {
		asked, fenced, err := r.o.State.Heed(ctx)
		if err != nil && !failed && ctx.Err() == nil {
			r.o.Log.Warn().Err(err).Msg("looking for what other runnels ask and have done")
		}
		failed = err != nil
		for _, id := range fenced {
			r.endOnce(r.running(id), func(run *Run) { run.abort(ErrFenced) })
		}
		for _, id := range asked {
			r.endOnce(r.cancellable(id), func(run *Run) {
				message := "cancelled by the client"
				if !run.Task().Detached { // a detached task is always cancelled by another process
					message += ", by another runnel"
				}
				run.Cancel(message)
			})
		}
	}
}

// endOnce ends a run, if there is one, in a goroutine of its own, since its client or the state may delay it for long. Later calls for the
// same run do nothing.
func (r *Runner) endOnce(run *Run, end func(run *Run)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if run != nil && !run.endRequested {
		run.endRequested = true
		r.goLocked(func(context.Context) { end(run) })
	}
}

// cancellable returns the run that others ask to cancel, nil if it has ended.
func (r *Runner) cancellable(id string) *Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	if run := r.hidden[id]; run != nil {
		return run
	}
	return r.live[id]
}

// keepWatching reports whether there still is something to watch for. If not, it notes that nobody watches any more.
func (r *Runner) keepWatching() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.watching = len(r.live)+len(r.hidden) > 0
	return r.watching
}
