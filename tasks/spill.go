package tasks

import (
	"context"
	"errors"
	"time"
)

// A run without a handle writes to memory only: most calls are over before anything needs to be stored. One that may still
// get a handle must not lose what it wrote before, so a durable store takes its output when memory can keep no more of it.
//
// One that runs for longer than hideAfter is stored, too, for people: they see what runs here (sqlite.Options.Calls) and may
// cancel it. It counts against no limit, nobody else finds it, and it is forgotten when it ends, unless it has got a handle.

// hideAfter is how long a call runs before it is stored: a quick one pays nothing for it.
const hideAfter = 300 * time.Millisecond

// spill lets the store keep a run without a handle, and its output. If it cannot, the call goes on all the same.
func (r *Run) spill() {
	r.door.Lock()
	defer r.door.Unlock()
	r.mu.Lock()
	t, needless := r.task, r.handle || r.finishing || r.hidden
	r.mu.Unlock()
	if needless {
		return
	}
	if err := r.runner.o.State.Hide(t); errors.Is(err, errors.ErrUnsupported) {
		return
	} else if err != nil {
		r.runner.o.Log.Warn().Err(err).Str("taskId", r.id).Msg("a call cannot be stored: memory keeps the end of its output")
		return
	}
	r.setHidden(true)
}

// setHidden notes whether the store keeps the run, so that it hears what others ask of it. The door is held.
func (r *Run) setHidden(hidden bool) {
	if r.hidden == hidden {
		return
	}
	r.hidden = hidden
	r.runner.mu.Lock()
	defer r.runner.mu.Unlock()
	if !hidden {
		delete(r.runner.hidden, r.id)
		return
	}
	r.runner.hidden[r.id] = r
	r.runner.watch()
}

// unspill deletes what the store kept for a run that has ended without a handle. The door is held.
func (r *Run) unspill(t *Task) {
	r.setHidden(false)
	if err := r.runner.o.State.Delete(context.Background(), t.Owner, t.ID); err != nil {
		r.runner.o.Log.Warn().Err(err).Str("taskId", r.id).Msg("deleting the stored output of a call")
	}
}
