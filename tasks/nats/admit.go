package nats

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"runnel/tasks"
	"runnel/tasks/engine"
)

// admit stores the mark of a task, unless the task is beyond the limits of its owner; hidden ones are not
// limited, and those that keep files of others do not count.
func (sp *space) admit(ctx context.Context, r *engine.Record) error {
	if r.Task.Ending || r.Hidden {
		return sp.putMark(ctx, r)
	}
	if limit := sp.Limits.MaxStartsPerMinute; limit > 0 {
		next := get{Since: new(time.Now().Add(-time.Minute)), NextFor: sp.subject("*", "made"), Batch: limit}
		for starts := 0; ; {
			made, err := sp.direct(ctx, sp.name, next)
			if err != nil {
				return err
			}
			for _, m := range made {
				if !tasks.IsFiles(strings.TrimSuffix(m.Subject, ".made")) {
					starts++
				}
			}
			if starts >= limit {
				return tasks.ErrTooManyStarts
			}
			if len(made) < limit {
				break
			}
			next.Since, next.Seq = nil, made[len(made)-1].Sequence+1
		}
	}
	if sp.Limits.MaxLive <= 0 {
		return sp.putMark(ctx, r)
	}
	select { // two of this process would only disturb each other
	case sp.admitting <- struct{}{}:
		defer func() { <-sp.admitting }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	all := sp.marks("*", "*", false)
	if sp.quiet.Load() {
		err := sp.putMark(ctx, r, jetstream.WithExpectLastSequenceForSubject(0, all))
		if !errors.Is(err, tasks.ErrFenced) { // otherwise there are some
			return err
		}
	}
	for {
		last, err := sp.newest(ctx, all) // before the count
		if err != nil {
			return err
		}
		var marks []string
		sp.quiet.Store(last == nil)
		if last != nil {
			if marks, err = sp.subjects(ctx, sp.name, all); err != nil {
				return err
			}
		}
		others := map[string]bool{}
		for _, subject := range marks {
			// An earlier try's.
			if id, _, _ := strings.Cut(strings.TrimPrefix(subject, sp.root+"live."), "."); id != r.ID &&
				!tasks.IsFiles(id) {
				others[id] = true
			}
		}
		if len(others) >= sp.Limits.MaxLive {
			return tasks.ErrTooManyLive
		}
		var sequence uint64
		if last != nil {
			sequence = last.Sequence
		}
		err = sp.putMark(ctx, r, jetstream.WithExpectLastSequenceForSubject(sequence, all))
		if !errors.Is(err, tasks.ErrFenced) { // otherwise another task was marked since
			return err
		}
	}
}
