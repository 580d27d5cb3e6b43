package tasks

import "context"

// A run without a handle writes to memory only: most calls are over before anything needs to be stored. One that may still
// get a handle must not lose what it wrote before, so a durable store takes its output when memory can keep no more of it.

// spill lets the store keep the output of a run without a handle. If it cannot, the call goes on all the same.
func (r *Run) spill() {
	r.door.Lock()
	defer r.door.Unlock()
	r.mu.Lock()
	t, needless := r.task, r.handle || r.finishing
	r.mu.Unlock()
	if needless {
		return
	}
	if err := r.runner.o.Store.(Hider).Hide(t); err != nil {
		r.runner.o.Log.Warn().Err(err).Str("taskId", r.id).Msg("the output of a call cannot be stored: memory keeps the end of it")
		return
	}
	r.hidden = true
}

// unspill deletes what the store kept for a run that has ended without a handle. The door is held.
func (r *Run) unspill() {
	if err := r.runner.o.Store.Delete(context.Background(), r.id); err != nil {
		r.runner.o.Log.Warn().Err(err).Str("taskId", r.id).Msg("deleting the stored output of a call")
	}
}
