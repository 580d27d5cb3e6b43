package redis

import (
	"context"
	"errors"
	"strconv"

	"github.com/redis/rueidis"

	"runnel/partials"
	"runnel/tasks"
)

// Get implements tasks.State. The log of a task that another process runs is what has been stored of it by now.
func (s *State) Get(ctx context.Context, owner, id string) (tasks.Task, error) {
	sp, r, err := s.find(ctx, owner, id)
	if err != nil {
		return tasks.Task{}, err
	}
	if err := sp.outcome(ctx, r); err != nil {
		return tasks.Task{}, err
	}
	ends, err := sp.ends(ctx, r, 0, 0)
	if errors.Is(err, partials.ErrEnds) {
		r.fail(err)
	} else if err != nil {
		return tasks.Task{}, err
	}
	r.Log = sp.log(r)
	r.Segments = partials.RestoreSegments(r.Log, ends, r.ending)
	if !r.terminal() {
		r.Segments.Follow()
	}
	return r.Task, nil
}

// Head implements tasks.State.
func (s *State) Head(ctx context.Context, owner, id string) (tasks.Task, error) {
	sp, r, err := s.find(ctx, owner, id)
	if err != nil {
		return tasks.Task{}, err
	}
	r.Log = sp.log(r)
	return r.Task, nil
}

// someTasks are read at once at most.
const someTasks = 1000

// List implements tasks.State. A cursor is the place of the last task.
func (s *State) List(ctx context.Context, owner, cursor string, n int) ([]tasks.Task, string, error) {
	after := uint64(0)
	if cursor != "" {
		var err error
		if after, err = strconv.ParseUint(cursor, 36, 64); err != nil || len(cursor) > 10 { // a place in Redis is exact up to 2^53
			return nil, "", tasks.ErrCursor
		}
	}
	sp, err := s.space(ctx, owner)
	if err != nil {
		return nil, "", err
	}
	if after > 0 {
		answer, err := sp.read(ctx, func(b rueidis.Builder) rueidis.Completed { return b.Get().Key(sp.root + "last").Build() })
		if err != nil {
			return nil, "", err
		}
		if last, _ := answer.AsUint64(); after > last {
			return nil, "", tasks.ErrCursor
		}
	}
	var page []tasks.Task
	var shown uint64 // the place of the last task in page
	for {
		answer, err := sp.read(ctx, func(b rueidis.Builder) rueidis.Completed {
			return b.Zrangebyscore().Key(sp.root+"tasks").Min("("+strconv.FormatUint(after, 10)).Max("+inf").Withscores().Limit(0, int64(min(n+1, someTasks))).Build()
		})
		if err != nil {
			return nil, "", err
		}
		places, err := answer.AsZScores()
		if err != nil || len(places) == 0 {
			return page, "", err
		}
		ids := make([]string, len(places))
		for i := range places {
			ids[i] = places[i].Member
		}
		found, err := sp.records(ctx, ids)
		if err != nil {
			return nil, "", err
		}
		for i, r := range found {
			after = uint64(places[i].Score)
			if r == nil {
				continue
			}
			if len(page) == n {
				return page, strconv.FormatUint(shown, 36), nil
			}
			page, shown = append(page, r.Task), after
		}
	}
}
