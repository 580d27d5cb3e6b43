package tasks

import (
	"errors"
	"time"
)

// A run without a handle only writes to memory: most calls end before anything needs to be stored. One that may still get a handle must not
// lose earlier output, so a state on disk takes its output when memory can keep no more of it.
//
// A run that takes longer than hideAfter is stored as well, for people: they see what runs here (sqlite.Options.Calls) and may cancel it.
// It counts against no limit, nobody else finds it, and it is forgotten when it ends, unless it has got a handle.

// hideAfter is how long a call runs before it is stored, so that a quick one costs nothing.
const hideAfter = 300 * time.Millisecond

// spill makes the state keep a run without a handle, and its output. If it cannot, the call goes on all the same.
func (r *Run) spill() {
	r.changing.Lock()
	defer r.changing.Unlock()
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
	r.hidden = true
	r.runner.mu.Lock()
	defer r.runner.mu.Unlock()
	r.runner.hidden[r.id] = r
	r.runner.startWatching()
}
