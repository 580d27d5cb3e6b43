package run

import (
	"errors"
	"time"
)

// A run without a handle only writes to memory: most calls end before anything needs to be stored. One that
// may still get a handle must not lose earlier output, so a state on disk takes its output when memory can
// keep no more of it.
//
// A run that takes longer than hideAfter is stored as well, for people: they see it (sqlite.Options.Calls)
// and may cancel it. No limit applies to it, clients do not find it, and it is deleted when it ends, unless
// it has got a handle.

// hideAfter is how long a call runs before it is stored, so that a short one costs nothing.
const hideAfter = 300 * time.Millisecond

// spill lets the state keep a run without a handle, and its output. If the state cannot, the call continues.
func (r *Run) spill() {
	r.changing.Lock()
	defer r.changing.Unlock()
	r.mu.Lock()
	t, needless := r.task, r.kept != nothing || r.phase.now >= ending
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
	r.mu.Lock()
	r.kept = hidden
	r.mu.Unlock()
	r.runner.mu.Lock()
	defer r.runner.mu.Unlock()
	r.runner.hidden[r.id] = r
	r.runner.startWatching()
}
