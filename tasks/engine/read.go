package engine

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"runnel/partials"
	"runnel/tasks"
)

// find reads an owner's task, without its outcome. Its log is what is stored so far.
func (s *State) find(ctx context.Context, owner, id string) (*Space, *Record, error) {
	if !IsToken(id) { // no server need be asked
		return nil, nil, tasks.ErrNotFound
	}
	sp, err := s.Space(ctx, owner)
	if err != nil {
		return nil, nil, err
	}
	r, err := sp.Lookup(ctx, id)
	return sp, r, err
}

// Lookup reads a task, without its outcome.
func (sp *Space) Lookup(ctx context.Context, id string) (*Record, error) {
	if !IsToken(id) {
		return nil, tasks.ErrNotFound
	}
	r, err := sp.Read(ctx, id)
	if err == nil && !sp.shows(r) {
		err = tasks.ErrNotFound
	}
	if err == nil && r.Damage != nil {
		sp.Log.Error().Str("taskId", id).Err(r.Damage).Msg("the state is damaged: a task cannot be read")
	}
	return r, err
}

// Get implements tasks.State. The log of a task that another process runs is what has been stored so far.
func (s *State) Get(ctx context.Context, owner, id string) (tasks.Task, error) {
	sp, r, err := s.find(ctx, owner, id)
	if err != nil {
		return tasks.Task{}, err
	}
	if err := sp.Extent(ctx, r, NoOutput); err != nil {
		return tasks.Task{}, err
	}
	if err := sp.outcome(ctx, r, nil); err != nil {
		return tasks.Task{}, err
	}
	ends, err := sp.Ends(ctx, r, 0, 0)
	if errors.Is(err, partials.ErrEnds) {
		r.Fail(err)
	} else if err != nil {
		return tasks.Task{}, err
	}
	sp.describe(ctx, r)
	r.Log = sp.log(r)
	r.Segments = restore(r, ends)
	return r.Task, nil
}

// Head implements tasks.State.
func (s *State) Head(ctx context.Context, owner, id string) (tasks.Task, error) {
	sp, r, err := s.find(ctx, owner, id)
	if err == nil {
		err = sp.Extent(ctx, r, NoOutput)
	}
	if err != nil {
		return tasks.Task{}, err
	}
	sp.describe(ctx, r)
	r.Log = sp.log(r)
	return r.Task, nil
}

// outcome reads the outcome of a task that has ended, unless it is known.
func (sp *Space) outcome(ctx context.Context, r *Record, encoded []byte) (err error) {
	if r.Damage != nil || !r.Terminal() {
		return nil
	}
	if encoded == nil {
		encoded, err = sp.Outcome(ctx, r)
	}
	if err == nil {
		var outcome *tasks.Outcome
		if outcome, r.Ending, err = tasks.DecodeOutcome(encoded); err == nil {
			r.Outcome = outcome
			return nil
		}
		err = Damage(err.Error())
	}
	if errors.As(err, new(Damage)) {
		r.Ending = nil
		r.Fail(err)
		return nil
	}
	return err
}

// Newest implements tasks.State. It reads the list from its beginning.
func (s *State) Newest(ctx context.Context, owner, before string, n int) ([]tasks.Task, error) {
	var last []tasks.Task
	for cursor := ""; ; {
		page, next, err := s.List(ctx, owner, cursor, someTasks)
		if err != nil {
			return nil, err
		}
		at := slices.IndexFunc(page, func(t tasks.Task) bool { return t.ID == before })
		if at >= 0 {
			page = page[:at]
		}
		last = append(last, page...)
		last = slices.Clone(last[max(len(last)-n, 0):])
		if at >= 0 || next == "" && before == "" {
			slices.Reverse(last)
			return last, nil
		}
		if cursor = next; cursor == "" {
			return nil, tasks.ErrCursor
		}
	}
}

// List implements tasks.State. A cursor is the place of the last task.
func (s *State) List(ctx context.Context, owner, cursor string, n int) ([]tasks.Task, string, error) {
	after := uint64(0)
	if cursor != "" {
		var err error
		if after, err = strconv.ParseUint(cursor, 36, 64); err != nil || len(cursor) > 13 {
			return nil, "", tasks.ErrCursor
		}
	}
	sp, err := s.Space(ctx, owner)
	if err != nil {
		return nil, "", err
	}
	var page []tasks.Task
	var last uint64 // the place of the last task on the page
	for {
		places, err := sp.List(ctx, after, n+1)
		if err != nil || len(places) == 0 {
			return page, "", err
		}
		for _, p := range places {
			after = p.Number
			if !s.shows(p.Record) {
				continue
			}
			if len(page) == n {
				return page, strconv.FormatUint(last, 36), nil
			}
			sp.describe(ctx, p.Record)
			page, last = append(page, p.Record.Task), p.Number
		}
	}
}
