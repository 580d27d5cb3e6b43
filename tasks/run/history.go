package run

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"runnel/internal/pause"
	"runnel/internal/shorten"
	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/tasks"
)

// A run without a handle that has ended is kept for people, if the state can (Historian): they see what their
// hosts have called. Clients do not find it. It is stored after its answer, together with those that end soon
// after it, so that a call waits for no write; a process that dies loses the last of them. A run that
// the state has as hidden is recorded as it ends.
//
// A call takes 143 µs without the history and 146 with it (10,000 echoes over stdin, one after the other, on
// two cores); 34 and 36 µs with 16 at a time. The history has 0.3 MB then.

const (
	// historyDelay is how long a call that has ended may wait for others before it is stored.
	historyDelay = 500 * time.Millisecond
	// recordedAtOnce is how many calls are stored in one transaction, which others have to wait for.
	recordedAtOnce = 200
	// maxUnrecorded is how many bytes of calls wait to be stored; beyond it the oldest are forgotten.
	maxUnrecorded = 4 << 20
)

// unrecorded are the calls that have ended and wait to be stored.
type unrecorded struct {
	mu      sync.Mutex
	calls   []tasks.Task // oldest first
	bytes   int64
	waiting bool // a goroutine will store them
	failed  bool // that was said
}

// endWithoutHandle keeps a call that has ended for people, or deletes what the state has of it. changing is
// held.
func (r *Run) endWithoutHandle(t tasks.Task, isHidden bool) {
	historian, ok := r.runner.store.(tasks.Historian)
	ok = ok && historian.History().Calls > 0 && !r.spec.Unrecorded
	if !ok && !isHidden {
		return
	}
	if ok {
		limits := historian.History()
		t.TTL, t.Arguments = limits.Age, r.argumentsToKeep()
		t.Outcome = within(t.Outcome, limits.Log)
		if !isHidden {
			t.Log = endOfLog(t.Log, limits.Log)
			t.Segments = partials.NewSegments(t.Log)
			r.runner.record(historian, t)
			return
		}
	}
	r.runner.unhide(r.id)
	err := errors.ErrUnsupported
	if ok {
		err = historian.Record(t)
	}
	if err != nil {
		err = r.runner.store.Delete(context.Background(), t.ID)
	}
	if err != nil {
		r.runner.o.Log.Warn().Err(err).Str("taskId", r.id).Msg("deleting the stored output of a call")
	}
}

// record has a call stored soon.
func (r *Runner) record(historian tasks.Historian, t tasks.Task) {
	u := &r.unrecorded
	u.mu.Lock()
	defer u.mu.Unlock()
	u.calls = append(u.calls, t)
	u.bytes += tasks.Weight(&t)
	for len(u.calls) > historian.History().Calls || u.bytes > maxUnrecorded && len(u.calls) > 1 {
		u.bytes -= tasks.Weight(&u.calls[0])
		u.calls[0] = tasks.Task{}
		u.calls = u.calls[1:]
	}
	if !u.waiting {
		u.waiting = r.Go(func(ctx context.Context) { // else Close stores it
			pause.For(ctx, historyDelay)
			r.recordAll()
		})
	}
}

// recordAll stores the calls that wait for it.
func (r *Runner) recordAll() {
	u := &r.unrecorded
	u.mu.Lock()
	calls := u.calls
	u.calls = nil
	u.bytes = 0
	u.waiting = false
	u.mu.Unlock()
	// A call is answered before it comes here, so the next one may be faster. A list has the order of the
	// calls.
	slices.SortStableFunc(calls, func(a, b tasks.Task) int { return a.CreatedAt.Compare(b.CreatedAt) })
	for some := range slices.Chunk(calls, recordedAtOnce) {
		err := r.store.(tasks.Historian).Record(some...)
		if err == nil {
			continue
		}
		u.mu.Lock()
		defer u.mu.Unlock()
		if !u.failed {
			u.failed = true
			r.o.Log.Warn().Err(err).Msg("calls are not stored: runnel tasks list and top will not show them")
		}
		return
	}
}

// within returns an outcome whose result has at most limit bytes.
func within(o *tasks.Outcome, limit int) *tasks.Outcome {
	if o.Result == nil || o.Result.Size() <= limit {
		return o
	}
	left := mcp.Text(shorten.LeftOut(int64(o.Result.Size()), "bytes",
		"the history keeps no result of this size"))
	return &tasks.Outcome{Result: &mcp.CallToolResult{Content: []mcp.ContentBlock{left},
		IsError: o.Result.IsError, Meta: o.Result.Meta}}
}

// endOfLog returns a log that takes little memory: log itself, or its end.
func endOfLog(log *partials.Log, limit int) *partials.Log {
	if log.Held() <= int64(limit) {
		return log
	}
	last := log.Tail(limit)
	end := partials.NewLog(nil)
	end.Resume(last.Start)
	// nothing can be lost: it has no backing and no reader.
	_ = end.Append(context.Background(), last.Chunks()...)
	end.Close()
	return end
}

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
	t, needless := r.task, r.kept != nothing || r.phase >= ending
	r.mu.Unlock()
	if needless {
		return
	}
	t.Hidden = true
	if err := r.runner.store.Put(context.Background(), t); errors.Is(err, errors.ErrUnsupported) {
		return
	} else if err != nil {
		r.runner.o.Log.Warn().Err(err).Str("taskId", r.id).
			Msg("a call cannot be stored: memory keeps the end of its output")
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
