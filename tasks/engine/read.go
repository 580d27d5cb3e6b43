package engine

import (
	"context"
	"errors"
	"strconv"

	"runnel/partials"
	"runnel/tasks"
)

// Lookup reads a task, without its outcome. Its log is what is stored so far.
func (sp *Space) Lookup(ctx context.Context, id string) (*Record, error) {
	if !IsToken(id) { // no server need be asked
		return nil, tasks.ErrNotFound
	}
	if err := sp.Ready(ctx); err != nil {
		return nil, err
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

// Get implements tasks.Store. The log of a task that another process runs is what has been stored so far.
func (sp *Space) Get(ctx context.Context, id string) (tasks.Task, error) {
	r, err := sp.Lookup(ctx, id)
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

// Head implements tasks.Store.
func (sp *Space) Head(ctx context.Context, id string) (tasks.Task, error) {
	r, err := sp.Lookup(ctx, id)
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

// List implements tasks.Store. The oldest first, the rest begins after the place of a task.
func (sp *Space) List(ctx context.Context, d tasks.Direction, from string,
	n int) (page []tasks.Task, rest string, err error) {
	if err := sp.Ready(ctx); err != nil {
		return nil, "", err
	}
	at := uint64(0)
	switch {
	case from == "":
	case d == tasks.NewestFirst && IsToken(from):
		at, err = sp.Place(ctx, from)
	default:
		if at, err = strconv.ParseUint(from, 36, 64); err != nil || len(from) > 13 {
			err = tasks.ErrCursor
		}
	}
	for err == nil {
		var places []Place
		if places, err = sp.Driver.List(ctx, d, at, n+1); len(places) == 0 {
			return page, "", err
		}
		for _, p := range places {
			at = p.Number
			if !sp.shows(p.Record) {
				continue
			}
			if len(page) == n {
				return page, rest, nil
			}
			sp.describe(ctx, p.Record)
			page = append(page, p.Record.Task)
			if rest = p.Record.ID; d == tasks.OldestFirst {
				rest = strconv.FormatUint(at, 36)
			}
		}
	}
	return nil, "", err
}
