package sqlite

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"runnel/tasks"
)

// Find returns the ids of tasks that begin with a text, most ids at most.
func (s *store) Find(ctx context.Context, prefix string, most int) ([]string, error) {
	d, err := s.open()
	if err != nil {
		return nil, err
	}
	ids, err := column[string](d.query(ctx,
		"SELECT id FROM task WHERE owner = ? AND substr(id, 1, length(?2)) = ?2 AND id NOT GLOB '*-files' AND "+d.o.visible()+" ORDER BY number LIMIT ?",
		s.owner, prefix, d.o.Now().UnixNano(), most))
	return ids, explain(err)
}

// Forget deletes the tasks that tasks.Prune names, and returns them as List does; kept is the number of those
// whose result has not been fetched.
func (s *store) Forget(ctx context.Context, ended time.Time,
	force bool) (gone []tasks.Task, kept int, err error) {
	d, err := s.open()
	if err != nil {
		return nil, 0, err
	}
	var all []tasks.Prunable
	numbers := map[string]int64{}
	err = d.each(ctx, func(scan func(...any) error) error {
		var t tasks.Prunable
		var variables []byte
		r, err := scanTask(scan, &t.Fetched, &variables) // a call counts as fetched: it has its answer
		t.Task, t.Above = r.Task, tasks.Above(variables)
		all, numbers[r.ID] = append(all, t), r.number
		return err
	}, "SELECT "+taskColumns+", fetched OR expires < 0, variables FROM task WHERE owner = ? AND "+
		d.o.visible()+" ORDER BY number", s.owner, d.o.Now().UnixNano())
	if err != nil {
		return nil, 0, err
	}
	named, kept := tasks.Prune(all, ended, force)
	for some := range slices.Chunk(named, forgetTasks) {
		var list []string
		for i := range some {
			for _, id := range []string{some[i].ID, tasks.FilesID(some[i].ID)} {
				if n, has := numbers[id]; has {
					list = append(list, strconv.FormatInt(n, 10))
				}
			}
		}
		for n := 1; n > 0; {
			if n, err = d.drop(ctx, withNumber, "["+strings.Join(list, ",")+"]"); err != nil {
				return gone, kept, err
			}
		}
		gone = append(gone, some...)
	}
	return gone, kept, d.shrink(ctx, true)
}

// forgetTasks is how many tasks are deleted at a time: few, in case the disk has little room.
const forgetTasks = 64

// withNumber is a condition for drop, for the tasks whose numbers are in a JSON list.
const withNumber = "keeper IS NULL AND number IN (SELECT value FROM json_each(?)) ORDER BY number"
