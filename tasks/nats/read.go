package nats

import (
	"context"
	"errors"
	"strconv"
	"strings"

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
	sp.describe(ctx, r)
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
	sp.describe(ctx, r)
	r.Log = sp.log(r)
	return r.Task, nil
}

// log is what is stored of a task's output, to be read.
func (sp *space) log(r *record) *partials.Log {
	return partials.Stored(sp.output(r.ID, r.end), r.end)
}

// List implements tasks.State. A cursor is the sequence number of the last task's place.
func (s *State) List(ctx context.Context, owner, cursor string, n int) ([]tasks.Task, string, error) {
	after := uint64(0)
	if cursor != "" {
		var err error
		if after, err = strconv.ParseUint(cursor, 36, 64); err != nil || len(cursor) > 13 {
			return nil, "", tasks.ErrCursor
		}
	}
	sp, err := s.space(ctx, owner)
	if err != nil {
		return nil, "", err
	}
	if after > sp.stream.CachedInfo().State.LastSeq {
		fresh, err := s.js.Stream(ctx, sp.name)
		if err != nil {
			return nil, "", unreachable(err)
		}
		if after > fresh.CachedInfo().State.LastSeq {
			return nil, "", tasks.ErrCursor
		}
	}
	var page []tasks.Task
	var last uint64 // the place of the last task in page
	for {
		made, err := sp.from(ctx, after+1, sp.subject("*", "made"), n+1, maxMessage)
		if err != nil || len(made) == 0 {
			return page, "", err
		}
		subjects := make([]string, len(made))
		for i, m := range made {
			subjects[i] = strings.TrimSuffix(m.Subject, "made") + "task"
		}
		found, err := sp.records(ctx, subjects)
		if err != nil {
			return nil, "", err
		}
		for i, m := range made {
			after = m.Sequence
			r := found[subjects[i]]
			if r == nil || r.Expired(s.o.Now()) || r.Hidden && !s.o.Calls {
				continue
			}
			if len(page) == n {
				return page, strconv.FormatUint(last, 36), nil
			}
			sp.describe(ctx, r)
			page, last = append(page, r.Task), m.Sequence
		}
	}
}

// mostSubjects is how many subjects the server takes in one request.
const mostSubjects = 1000

// records reads records by their subjects.
func (sp *space) records(ctx context.Context, subjects []string) (map[string]*record, error) {
	found := map[string]*record{}
	for len(subjects) > 0 {
		some := subjects[:min(len(subjects), mostSubjects)]
		subjects = subjects[len(some):]
		messages, err := sp.lastOf(ctx, some...)
		if err != nil {
			return nil, err
		}
		for _, m := range messages {
			id, _, _ := strings.Cut(strings.TrimPrefix(m.Subject, sp.root), ".")
			r := &record{}
			r.read(sp.owner, id, m)
			found[m.Subject] = r
		}
	}
	return found, nil
}
