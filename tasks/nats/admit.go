package nats

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"

	"runnel/tasks"
)

// admit refuses a task of an owner who has too many. Two processes that start one at the same moment may both be let in: the limits hold an
// owner back, they are no lock.
func (sp *space) admit(ctx context.Context, t *tasks.Task) error {
	if t.Ending {
		return nil
	}
	if limit := sp.s.o.Limits.MaxLive; limit > 0 {
		live, err := subjects(ctx, sp.stream, sp.subject("*", "live.*"))
		if err != nil {
			return err
		}
		if len(live) >= limit {
			return tasks.ErrTooManyLive
		}
	}
	if limit := sp.s.o.Limits.MaxStartsPerMinute; limit > 0 {
		ctx, cancel := context.WithTimeout(ctx, directTimeout)
		defer cancel()
		answer, err := jetstreamext.GetBatch(ctx, sp.s.js, sp.name, limit, jetstreamext.GetBatchSubject(sp.subject("*", "made")), jetstreamext.GetBatchStartTime(time.Now().Add(-time.Minute)))
		made, err := collect(ctx, answer, err)
		if err != nil {
			return err
		}
		if len(made) >= limit {
			return tasks.ErrTooManyStarts
		}
	}
	return nil
}

// subjects are those that a stream has of a pattern.
func subjects(ctx context.Context, stream jetstream.Stream, pattern string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, directTimeout)
	defer cancel()
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(pattern))
	if err != nil {
		return nil, unreachable(err)
	}
	return slices.Collect(maps.Keys(info.State.Subjects)), nil
}
