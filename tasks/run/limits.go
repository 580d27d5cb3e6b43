package run

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tasks"
)

// These are the reasons why a task, or a request about one, was refused.
const (
	refusedLive     = "live"     // MaxLive
	refusedStarts   = "starts"   // MaxStartsPerMinute
	refusedRequests = "requests" // MaxRequestsPerSecond
	refusedStore    = "store"    // it could not be stored
)

// window allows a number of events in any period of a given length, so there is no burst where two periods
// meet.
type window struct {
	limit  int
	period time.Duration

	mu    sync.Mutex
	taken []time.Time // within the last period, oldest first
}

// claim reports whether another event is allowed now, and counts it if so.
func (w *window) claim() bool {
	if w.limit <= 0 {
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	for len(w.taken) > 0 && now.Sub(w.taken[0]) >= w.period {
		w.taken = w.taken[1:]
	}
	if len(w.taken) >= w.limit {
		return false
	}
	w.taken = append(w.taken, now)
	return true
}

// addLive adds a run to the live ones if the limits of this process allow it.
func (r *Runner) addLive(run *Run) error {
	ending := run.Task().Ending
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case ending:
	case len(r.live) >= r.o.MaxLive:
		return tasks.ErrTooManyLive
	case !r.starts.claim():
		return tasks.ErrTooManyStarts
	}
	r.live[run.id] = run
	r.startWatching()
	return nil
}

// CountRequest counts a request about tasks. It returns an *rpc.Error if that exceeds the limit.
func (r *Runner) CountRequest() error {
	if r.requests.claim() {
		return nil
	}
	return r.refuse("", "", refusedRequests,
		rpc.Errorf(mcp.CodeInternalError,
			"too many task requests: the limit is %d a second (tasks.maxRequestsPerSecond); try again later",
			r.o.MaxRequestsPerSecond))
}

// refuse records a refusal and returns the error for the client.
func (r *Runner) refuse(id, tool, why string, err error) error {
	r.o.Log.Warn().Str("taskId", id).Str("owner", r.o.Owner).Str("tool", tool).Str("limit", why).
		Msg("task refused")
	r.o.Observer.Refused(why)
	return err
}

// refused records that a limit or the state has refused a task, and returns the error for the client.
func (r *Runner) refused(run *Run, err error) error {
	var why string
	switch {
	case errors.Is(err, tasks.ErrTooManyLive):
		why, err = refusedLive, fmt.Errorf("%w: the limit is %d (--max-tasks, tasks.maxLive); wait for "+
			"one to end or cancel one", err, r.o.MaxLive)
	case errors.Is(err, tasks.ErrTooManyStarts):
		why, err = refusedStarts, fmt.Errorf("%w: the limit is %d a minute (tasks.maxStartsPerMinute); "+
			"try again later", err, r.o.MaxStartsPerMinute)
	default:
		r.o.Log.Error().Err(err).Str("taskId", run.id).Str("owner", r.o.Owner).Msg("task not stored")
		why, err = refusedStore, fmt.Errorf("the task could not be stored: %w", err)
	}
	return r.refuse(run.id, run.spec.Tool, why, rpc.Errorf(mcp.CodeInternalError, "%v", err))
}
