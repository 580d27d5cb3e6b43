package sqlite

import (
	"context"
	"slices"
	"time"

	"runnel/tasks"
)

// Find returns the ids of an owner's tasks that begin with a text, most ids at most.
func (s *State) Find(ctx context.Context, owner, prefix string, most int) ([]string, error) {
	d, err := s.open()
	if err != nil {
		return nil, err
	}
	return d.ids(ctx, "owner = ? AND substr(id, 1, length(?2)) = ?2 AND "+d.o.visible()+" ORDER BY number LIMIT ?",
		owner, prefix, d.o.Now().UnixNano(), most)
}

// Forget deletes an owner's tasks that have ended by a time, and returns them as List does. What has not ended stays and, unless
// forced, those whose result nobody has fetched: so many are kept.
func (s *State) Forget(ctx context.Context, owner string, ended time.Time, force bool) (gone []tasks.Task, kept int, err error) {
	d, err := s.open()
	if err != nil {
		return nil, 0, err
	}
	var found []row
	err = d.each(ctx, func(scan func(...any) error) error {
		var fetched bool
		r, err := scanTask(scan, &fetched)
		if fetched || force {
			found = append(found, r)
		} else {
			kept++
		}
		return err
	}, "SELECT "+taskColumns+", fetched FROM task WHERE owner = ? AND keeper IS NULL AND updated <= ? AND expires > ? ORDER BY number",
		owner, ended.UnixNano(), d.o.Now().UnixNano())
	if err != nil {
		return nil, kept, err
	}
	for some := range slices.Chunk(found, forgetTasks) {
		if err := d.hide(some); err != nil {
			return gone, kept, err
		}
		for i := range some {
			gone = append(gone, some[i].Task)
		}
	}
	if err := d.dropExpired(ctx); err != nil {
		return gone, kept, err
	}
	return gone, kept, d.shrink(ctx)
}

// forgetTasks are hidden in one transaction, in which no other process can write.
const forgetTasks = 1000

// hide lets tasks expire: nobody finds them from then on, and a sweep deletes them.
func (d *database) hide(list []row) error {
	return d.w.do(job{do: func(tx *transaction) error {
		for i := range list {
			if _, err := tx.exec("UPDATE task SET expires = 0 WHERE number = ? AND keeper IS NULL", list[i].number); err != nil {
				return err
			}
		}
		return nil
	}})
}
