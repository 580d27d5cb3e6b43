package tasks

import (
	"context"
	"time"
)

// Find returns the ids of an owner's tasks that begin with a text, most ids at most.
func (s *SQLite) Find(ctx context.Context, owner, prefix string, most int) ([]string, error) {
	d, err := s.open()
	if err != nil {
		return nil, err
	}
	return d.ids(ctx, "owner = ? AND substr(id, 1, length(?2)) = ?2 AND expires > ? ORDER BY number LIMIT ?",
		owner, prefix, time.Now().UnixNano(), most)
}

// Forget deletes an owner's tasks that have ended by a time, and returns them as List does. What has not ended stays.
func (s *SQLite) Forget(ctx context.Context, owner string, ended time.Time) ([]Task, error) {
	d, err := s.open()
	if err != nil {
		return nil, err
	}
	const those = "owner = ? AND keeper IS NULL AND updated <= ? AND expires > ?"
	now := time.Now().UnixNano()
	var found []row
	err = d.each(ctx, func(scan func(...any) error) error {
		r, err := scanTask(scan)
		found = append(found, r)
		return err
	}, "SELECT "+taskColumns+" FROM task WHERE "+those+" ORDER BY number", owner, ended.UnixNano(), now)
	var gone []Task
	for _, r := range found {
		for n, found := 1, false; n > 0 && err == nil; { // a large one goes piece by piece
			if n, err = d.drop(ctx, "number = ?", r.number); n > 0 && !found {
				found = true
				gone = append(gone, r.Task)
			}
		}
	}
	if err == nil {
		err = d.shrink(ctx)
	}
	return gone, err
}
