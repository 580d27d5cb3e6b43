package sqlite

import (
	"bytes"
	"context"
	"encoding/json"
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

// Forget deletes the tasks that had ended at a time, and returns them as List does. Tasks that have
// not ended stay, and those that such a task needs; so do, unless forced, those whose result has not been
// fetched, and kept is the number of these.
func (s *store) Forget(ctx context.Context, ended time.Time,
	force bool) (gone []tasks.Task, kept int, err error) {
	d, err := s.open()
	if err != nil {
		return nil, 0, err
	}
	var found []row
	files := map[string]int64{}           // the numbers of tasks that keep files of others
	begun := map[string]json.RawMessage{} // the variables of tasks that others have begun
	err = d.each(ctx, func(scan func(...any) error) error {
		var fetched bool // or a call, which has its answer
		var variables []byte
		r, err := scanTask(scan, &fetched, &variables)
		if bytes.Contains(variables, []byte(tasks.AboveNote)) {
			begun[r.ID] = variables
		}
		if tasks.IsFiles(r.ID) {
			files[r.ID] = r.number
		} else if fetched || force {
			found = append(found, r)
		} else {
			kept++
		}
		return err
	}, "SELECT "+taskColumns+", fetched OR expires < 0, variables FROM task WHERE owner = ? AND keeper IS NULL AND updated <= ? AND "+d.o.visible()+" ORDER BY number",
		s.owner, ended.UnixNano(), d.o.Now().UnixNano())
	if err != nil {
		return nil, kept, err
	}
	for id, variables := range begun {
		needed, err := tasks.Needed(variables, func(id string) (tasks.Task, error) { return s.Head(ctx, id) })
		if err != nil {
			return nil, kept, err
		}
		if needed {
			found = slices.DeleteFunc(found, func(r row) bool { return r.ID == id })
		}
	}
	for some := range slices.Chunk(found, forgetTasks) {
		var numbers []string
		for i := range some {
			numbers = append(numbers, strconv.FormatInt(some[i].number, 10))
			if n, has := files[tasks.FilesID(some[i].ID)]; has {
				numbers = append(numbers, strconv.FormatInt(n, 10))
			}
		}
		for n := 1; n > 0; {
			if n, err = d.drop(ctx, named, "["+strings.Join(numbers, ",")+"]"); err != nil {
				return gone, kept, err
			}
		}
		for i := range some {
			gone = append(gone, some[i].Task)
		}
	}
	return gone, kept, d.shrink(ctx, true)
}

// forgetTasks is how many tasks are deleted at a time: few, in case the disk has little room.
const forgetTasks = 64

// named is a condition for drop, for the tasks whose numbers are in a JSON list.
const named = "keeper IS NULL AND number IN (SELECT value FROM json_each(?)) ORDER BY number"
