package run

import (
	"context"
	"errors"
	"fmt"

	"github.com/rs/zerolog"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tasks"
)

// Each event of a task is recorded twice: in the log, with ids and the owner but never with content, and by
// an Observer that counts.

func (r *Runner) event(id string) *zerolog.Event {
	return r.o.Log.Info().Str("taskId", id).Str("owner", r.o.Owner)
}

func (r *Runner) recordCreated(t *tasks.Task) {
	r.event(t.ID).Str("tool", t.Tool).Msg("task created")
	r.o.Observer.Created(t.Tool)
}

func (r *Runner) recordEnded(t *tasks.Task) {
	took := t.UpdatedAt.Sub(t.CreatedAt)
	r.event(t.ID).Str("tool", t.Tool).Str("status", string(t.Status)).Int64("tookMs", took.Milliseconds()).
		Msg("task ended")
	r.o.Observer.Ended(t.Tool, t.Status, took)
}

// RecordRetrieved records that a client has got a task's result. "runnel tasks prune" keeps the task until
// then.
func (r *Runner) RecordRetrieved(id string) {
	// The client still gets its result.
	if err := r.store.MarkFetched(context.Background(), id); err != nil {
		r.o.Log.Warn().Err(err).Str("taskId", id).Msg("recording that the result was fetched")
	}
	r.event(id).Msg("task result retrieved")
	r.o.Observer.Retrieved()
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

// Used counts what the run's tool has taken of a language model.
func (r *Run) Used(u Usage) { r.runner.o.Observer.Used(r.Task().Tool, u) }
