package nats

import (
	"context"
	"encoding/json"
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
	if limit := sp.Limits.MaxLive; limit > 0 {
		live, err := sp.subjects(ctx, sp.name, sp.subject("*", "live.*"))
		if err != nil {
			return err
		}
		if len(live) >= limit {
			return tasks.ErrTooManyLive
		}
	}
	if limit := sp.Limits.MaxStartsPerMinute; limit > 0 {
		ctx, cancel := context.WithTimeout(ctx, directTimeout)
		defer cancel()
		answer, err := jetstreamext.GetBatch(ctx, sp.c.js, sp.name, limit, jetstreamext.GetBatchSubject(sp.subject("*", "made")), jetstreamext.GetBatchStartTime(time.Now().Add(-time.Minute)))
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

// subjects are those that a stream has of a pattern. It is not jetstream.Stream.Info, which is not for several goroutines at once.
func (sp *space) subjects(ctx context.Context, stream, pattern string) (list []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, directTimeout)
	defer cancel()
	for {
		request, err := json.Marshal(map[string]any{"subjects_filter": pattern, "offset": len(list)})
		if err != nil {
			return nil, err
		}
		m, err := sp.c.nc.RequestWithContext(ctx, "$JS.API.STREAM.INFO."+stream, request)
		if err != nil {
			return nil, unreachable(err)
		}
		var page struct {
			Error *jetstream.APIError
			Total int
			State struct{ Subjects map[string]uint64 }
		}
		if err := json.Unmarshal(m.Data, &page); err != nil {
			return nil, err
		}
		if page.Error != nil {
			return nil, unreachable(page.Error)
		}
		list = slices.AppendSeq(list, maps.Keys(page.State.Subjects))
		if len(page.State.Subjects) == 0 || len(list) >= page.Total {
			return list, nil
		}
	}
}
