package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"
	"time"

	"runnel/internal/pause"
	"runnel/tasks"
)

// Ask implements tasks.Shared.
func (s *store) Ask(ctx context.Context, id string) error {
	err := s.exec("UPDATE task SET asked = 1 WHERE id = ? AND owner = ? AND keeper IS NOT NULL", id, s.owner)
	if err == nil { // one that no process runs ends now
		_, err = s.Head(ctx, id)
	}
	if errors.Is(err, tasks.ErrNotFound) {
		err = nil
	}
	return err
}

// heedInterval is how often a process that runs tasks looks for requests of others.
const heedInterval = 250 * time.Millisecond

// Heed implements tasks.Shared.
func (s *store) Heed(ctx context.Context) (asked, fenced []string, err error) {
	d, err := s.open()
	if !pause.For(ctx, heedInterval) {
		return nil, nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, nil, err
	}
	retaken, lost := d.lease.retake()
	if retaken {
		d.o.Log.Error().Str("file", d.lease.path).
			Msg("somebody has removed the file that shows that this runnel is alive: making it again")
	}
	left := map[string]bool{} // those not found below have another keeper, or have ended here since
	d.mu.Lock()
	for id, k := range d.live {
		if k.owner == s.owner {
			left[id] = true
		}
	}
	d.mu.Unlock()
	err = d.each(ctx, func(scan func(...any) error) error {
		var id string
		var wanted bool
		err := scan(&id, &wanted)
		delete(left, id)
		if wanted {
			asked = append(asked, id)
		}
		return err
	}, "SELECT id, asked FROM task WHERE keeper = ? AND owner = ?", d.lease.name, s.owner)
	if err == nil {
		fenced = slices.Collect(maps.Keys(left))
	}
	return asked, fenced, errors.Join(lost, err)
}

// Taken implements tasks.Shared.
func (s *store) Taken(ctx context.Context, id string) (bool, error) {
	d, err := s.open()
	if err != nil {
		return false, err
	}
	var work []byte
	switch err := d.read.QueryRowContext(ctx, "SELECT work FROM task WHERE id = ?", id).Scan(&work); {
	case errors.Is(err, sql.ErrNoRows): // it has ended since, and was deleted
	case err != nil:
		return false, explain(err)
	case work == nil:
		return false, nil
	}
	d.forget(id)
	return true, nil
}

// SetVariables implements tasks.Store.
func (s *store) SetVariables(_ context.Context, id string, patch []byte) (merged []byte, err error) {
	d, err := s.open()
	if err != nil {
		return nil, err
	}
	err = d.w.do(job{do: func(tx *transaction) error {
		var current []byte
		err := tx.one(&current,
			"SELECT variables FROM task WHERE id = ? AND owner = ? AND keeper IS NOT NULL", id, s.owner)
		if errors.Is(err, sql.ErrNoRows) {
			return refusal{tasks.ErrEnded}
		} else if err != nil {
			return err
		}
		if tasks.OfKeeper(patch) {
			var keeper string
			if err := tx.one(&keeper, "SELECT keeper FROM task WHERE id = ?", id); err != nil {
				return err
			} else if keeper != d.lease.name {
				return refusal{tasks.ErrFenced}
			}
		}
		if merged, err = tasks.MergeVariables(current, patch); err != nil {
			return refusal{err}
		}
		_, err = tx.exec("UPDATE task SET variables = ? WHERE id = ?", merged, id)
		return err
	}})
	return merged, err
}

const (
	// lookFirst and lookMost are the shortest and the longest time between two looks at a task of another
	// process.
	lookFirst = 50 * time.Millisecond
	lookMost  = 400 * time.Millisecond
)

// Watch implements tasks.Shared. It polls, since the database does not announce changes.
func (s *store) Watch(ctx context.Context, t *tasks.Task) error {
	d, err := s.open()
	if err != nil {
		return err
	}
	for wait := lookFirst; ; wait = min(2*wait, lookMost) {
		if !pause.For(ctx, wait) {
			return context.Cause(ctx)
		}
		if changed, err := d.look(ctx, t); changed || err != nil {
			return err
		}
	}
}

// Lapsed implements tasks.Shared: a lock on a file needs no renewal.
func (s *store) Lapsed() error { return nil }

// look brings a task of another process up to date.
func (d *database) look(ctx context.Context, t *tasks.Task) (changed bool, err error) {
	r, err := d.current(ctx, t.Owner, t.ID, "outcome", 0)
	if err != nil {
		return false, err
	}
	k := d.output(&r)
	return t.Update(ctx, tasks.Newer{Task: r.Task, Ending: r.ending, End: r.end, Output: k,
		Ends: func(ctx context.Context, n int, last int64) ([]int64, error) {
			return k.loadSegments(ctx, n, last, r.end)
		}})
}

var _ tasks.Sessions = (*store)(nil)

// Session implements tasks.Sessions.
func (s *store) Session(ctx context.Context, id string) (session []byte, version uint64, err error) {
	d, err := s.open()
	if err != nil {
		return nil, 0, err
	}
	const query = "SELECT data, version FROM session WHERE owner = ? AND id = ? AND expires > ?"
	err = d.read.QueryRowContext(ctx, query, s.owner, id, d.o.Now().UnixNano()).Scan(&session, &version)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, 0, nil
	}
	return session, version, explain(err)
}

// PutSession implements tasks.Sessions.
func (s *store) PutSession(_ context.Context, id string, session []byte,
	version uint64) (uint64, error) {
	d, err := s.open()
	if err != nil {
		return 0, err
	}
	now := d.o.Now()
	expires := now.Add(tasks.SessionTTL).UnixNano()
	changed := int64(0)
	err = d.w.do(job{do: func(tx *transaction) error {
		if _, err := tx.exec("DELETE FROM session WHERE expires <= ?", now.UnixNano()); err != nil {
			return err
		}
		if version == 0 {
			changed, err = tx.change("INSERT INTO session (owner, id, data, version, expires) VALUES (?, "+
				"?, ?, 1, ?) "+
				"ON CONFLICT DO NOTHING", s.owner, id, session, expires)
		} else {
			changed, err = tx.change("UPDATE session SET data = ?, version = version + 1, expires = ? "+
				"WHERE owner = ? AND id = ? AND version = ?", session, expires, s.owner, id, version)
		}
		return err
	}})
	if err != nil || changed == 0 {
		return 0, err
	}
	return version + 1, nil
}

// DeleteSession implements tasks.Sessions.
func (s *store) DeleteSession(_ context.Context, id string) error {
	return s.exec("DELETE FROM session WHERE owner = ? AND id = ?", s.owner, id)
}
