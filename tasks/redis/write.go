package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"runnel/tasks"
	"runnel/tasks/engine"
)

// Each write is one script.

// Insert implements engine.Driver.
func (sp *space) Insert(ctx context.Context, r *engine.Record) error { return sp.put(ctx, r, true) }

// Write implements engine.Driver.
func (sp *space) Write(ctx context.Context, r *engine.Record, _ bool) error {
	return sp.put(ctx, r, false)
}

func (sp *space) put(ctx context.Context, r *engine.Record, fresh bool) error {
	record, err := r.EncodeRest()
	if err != nil {
		return err
	}
	limits := sp.Limits
	if r.Task.Ending {
		limits = tasks.Limits{}
	}
	said, err := sp.call(ctx, "put", r.ID, sp.Lifetime(&r.Task), flag(fresh), flag(r.Hidden),
		strconv.FormatUint(r.Revision+1, 10), string(record), string(r.Variables),
		strconv.Itoa(limits.MaxLive), strconv.Itoa(limits.MaxStartsPerMinute))
	switch {
	case err != nil:
		return err
	case said == "live":
		return tasks.ErrTooManyLive
	case said == "starts":
		return tasks.ErrTooManyStarts
	}
	r.Revision++
	return nil
}

func flag(is bool) string {
	if is {
		return "1"
	}
	return "0"
}

// End implements engine.Driver.
func (sp *space) End(ctx context.Context, r *engine.Record, outcome []byte) error {
	r.Stored.Outcome = len(outcome)
	record, err := r.EncodeRest()
	if err == nil {
		_, err = sp.call(ctx, "finish", r.ID, sp.Lifetime(&r.Task), r.Stored.Keeper, string(record),
			string(outcome))
	}
	// The record may be no hash at all.
	if err != nil && r.Damage != nil && !errors.Is(err, tasks.ErrFenced) && !errors.Is(err, tasks.ErrBusy) {
		return sp.Delete(ctx, r.ID)
	}
	return err
}

// Append implements engine.Driver.
func (sp *space) Append(ctx context.Context, r *engine.Record, b *engine.Batch) error {
	args := []string{strconv.FormatInt(b.From, 10), strconv.FormatInt(b.To, 10), "", "", "",
		strconv.Itoa(len(b.Cut))}
	if b.Numbers != nil {
		args[2] = strconv.Itoa(b.Last)
		args[3] = strconv.Itoa(b.First)
		args[4] = string(b.Numbers)
	}
	for _, end := range b.Cut {
		args = append(args, strconv.FormatInt(end, 10))
	}
	for _, e := range b.Extents {
		args = append(args, strconv.FormatInt(e.End(), 10), string(e.Marks), string(e.Data))
	}
	said, err := sp.call(ctx, "append", r.ID, sp.Lifetime(&r.Task), args...)
	if err == nil && said == "lost" {
		err = tasks.Trouble{Err: fmt.Errorf("the state at %s has lost output that it had stored: it was "+
			"restarted without its data, or a replica has taken its place", sp.server.o.Server)}
	}
	return err
}

// Take implements engine.Driver.
func (sp *space) Take(ctx context.Context, r *engine.Record, before string) error {
	_, err := sp.call(ctx, "take", r.ID, sp.Lifetime(&r.Task), before, string(r.Stored.Work))
	return err
}

// SetVariables implements engine.Driver.
func (sp *space) SetVariables(ctx context.Context, r *engine.Record, merged []byte) error {
	switch said, err := sp.call(ctx, "set", r.ID, sp.Lifetime(&r.Task), string(r.Variables), string(merged)); {
	case err != nil:
		return err
	case said == "ended":
		return tasks.ErrEnded
	case said == "changed":
		return tasks.ErrFenced
	}
	return nil
}

// MarkFetched implements engine.Driver.
func (sp *space) MarkFetched(ctx context.Context, r *engine.Record) error {
	_, err := sp.call(ctx, "fetched", r.ID, sp.Lifetime(&r.Task))
	return err
}

// Delete implements engine.Driver.
func (sp *space) Delete(ctx context.Context, id string) error {
	_, err := sp.call(ctx, "delete", id, 0)
	return err
}
