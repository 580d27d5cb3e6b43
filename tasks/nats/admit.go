package nats

import (
	"context"
	"time"

	"github.com/synadia-io/orbit.go/jetstreamext"

	"runnel/tasks"
	"runnel/tasks/engine"
)

// admit refuses a task beyond the limits of its owner, unless it is hidden. If two processes start one at the
// same moment, it may admit both.
func (sp *space) admit(ctx context.Context, r *engine.Record) error {
	if r.Task.Ending || r.Stored.Hidden {
		return nil
	}
	if limit := sp.Limits.MaxLive; limit > 0 {
		live, err := sp.subjects(ctx, sp.name, sp.marks("*", "*", false))
		if err != nil {
			return err
		}
		if len(live) >= limit {
			return tasks.ErrTooManyLive
		}
	}
	if limit := sp.Limits.MaxStartsPerMinute; limit > 0 {
		made, err := sp.direct(ctx, func(ctx context.Context) (answer, error) {
			return jetstreamext.GetBatch(ctx, sp.c.js, sp.name, limit, jetstreamext.GetBatchSubject(sp.subject("*", "made")),
				jetstreamext.GetBatchStartTime(time.Now().Add(-time.Minute)))
		})
		if err != nil {
			return err
		}
		if len(made) >= limit {
			return tasks.ErrTooManyStarts
		}
	}
	return nil
}
