package sqlite

import (
	"context"
	"database/sql"
	"errors"

	"runnel/tasks"
)

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
