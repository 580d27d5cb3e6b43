package engine

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"runnel/tasks"
)

// Put implements tasks.Store. A task that this process puts for the first time is its own to run: until a
// terminal status is put, its log is written to the state as it grows.
func (sp *Space) Put(ctx context.Context, t tasks.Task) error {
	if err := sp.Ready(ctx); err != nil {
		return err
	}
	t.Owner = sp.Owner
	k := sp.kept(t.ID)
	switch {
	case k != nil:
		return k.put(ctx, &t)
	case t.Status.Terminal():
		return tasks.ErrFenced
	}
	r := sp.newRecord(t)
	if err := sp.insert(ctx, r); err != nil {
		return err
	}
	sp.backing(r).begin()
	return nil
}

// newRecord returns the record of a new task of this process.
func (sp *Space) newRecord(t tasks.Task) *Record {
	r := &Record{Task: t, Stored: Stored{Keeper: sp.Keeper}}
	r.put(sp.Keeper)
	return r
}

// insert stores a new task.
func (sp *Space) insert(ctx context.Context, r *Record) error {
	if !IsToken(r.ID) {
		return errors.New("an id of a task has other characters than letters, digits, - and _")
	}
	if err := sp.clear(ctx, r.ID); err != nil {
		return err
	}
	err := sp.Insert(ctx, r)
	sp.doubt(r.ID, err)
	return err
}

// MarkFetched implements tasks.Store.
func (sp *Space) MarkFetched(ctx context.Context, id string) error {
	r, err := sp.Lookup(ctx, id)
	if err != nil {
		return nil //nolint:nilerr // the task is gone, or has no result that anybody could have fetched
	}
	return sp.Driver.MarkFetched(ctx, r)
}

// Delete implements tasks.Store.
func (sp *Space) Delete(ctx context.Context, id string) error {
	if !IsToken(id) {
		return nil
	}
	if err := sp.Ready(ctx); err != nil {
		return err
	}
	all := []string{id, tasks.FilesID(id)}
	if k := sp.kept(id); k != nil && !k.seen.Load() || tasks.IsFiles(id) { // it has no files
		all = all[:1]
	}
	for _, one := range all {
		if k := sp.kept(one); k != nil {
			k.log.Unback() // nothing more of it is written
			sp.forget(one)
		} else if one == id && tasks.IsFiles(id) {
			if err := sp.endFiles(ctx, id); err != nil {
				return err
			}
		}
		if err := sp.Driver.Delete(ctx, one); err != nil {
			return err
		}
	}
	return nil
}

// endFiles ends the task of files that another process may still write. They are deleted for another attempt,
// under the same id, and a server may store what is on its way behind a deletion, but not behind an end.
func (sp *Space) endFiles(ctx context.Context, id string) error {
	for {
		r, err := sp.Read(ctx, id)
		if errors.Is(err, tasks.ErrNotFound) || err == nil && r.Terminal() {
			return nil
		} else if err != nil {
			return err
		}
		if ended, err := sp.conclude(ctx, r, func(t *tasks.Task) { t.FailOrphan(ctx) }); err != nil || ended {
			return err
		}
	}
}

// SetVariables implements tasks.Store. Variables are stored beside the record, which only its keeper changes;
// at the end the stored variables count.
func (sp *Space) SetVariables(ctx context.Context, id string, patch []byte) ([]byte, error) {
	for {
		r, err := sp.Lookup(ctx, id)
		if errors.Is(err, tasks.ErrNotFound) || err == nil && (r.Terminal() || r.Sealed) {
			return nil, tasks.ErrEnded
		} else if err != nil {
			return nil, err
		}
		if r.Stored.Keeper != sp.Keeper && tasks.OfKeeper(patch) {
			return nil, tasks.ErrFenced
		}
		merged, err := tasks.MergeVariables(r.Variables, patch)
		if err != nil || bytes.Equal(merged, r.Variables) {
			return merged, err
		}
		switch err := sp.Driver.SetVariables(ctx, r, merged); {
		case err == nil:
			return merged, nil
		case !errors.Is(err, tasks.ErrFenced): // otherwise somebody else has set some
			return nil, err
		}
	}
}

// These methods are for people; clients do not use them.

// someTasks is how many tasks are read at once when all are wanted. The pages are long, since each page costs
// more the more tasks there are.
const someTasks = 999

// Find returns the ids of tasks that begin with a text, at most most of them.
func (sp *Space) Find(ctx context.Context, prefix string, most int) (ids []string, err error) {
	for cursor := ""; ; {
		page, next, err := sp.List(ctx, tasks.OldestFirst, cursor, someTasks)
		if err != nil {
			return nil, err
		}
		for i := range page {
			if strings.HasPrefix(page[i].ID, prefix) && !tasks.IsFiles(page[i].ID) {
				ids = append(ids, page[i].ID)
			}
		}
		if cursor = next; cursor == "" {
			slices.Sort(ids)
			return ids[:min(len(ids), most)], nil
		}
	}
}

// Forget deletes the tasks that tasks.Prune names, and returns them as List does; kept is the number of those
// whose result has not been fetched.
func (sp *Space) Forget(ctx context.Context, ended time.Time,
	force bool) (gone []tasks.Task, kept int, err error) {
	var all []tasks.Prunable
	for cursor := ""; ; {
		page, next, err := sp.List(ctx, tasks.OldestFirst, cursor, someTasks)
		if err != nil {
			return nil, 0, err
		}
		ids := make([]string, len(page))
		for i := range page {
			ids[i] = page[i].ID
		}
		fetched, err := sp.Fetched(ctx, ids)
		if err != nil {
			return nil, 0, err
		}
		for i := range page {
			t := tasks.Prunable{Task: page[i], Above: tasks.Above(page[i].Variables),
				Fetched: fetched[page[i].ID]}
			t.Variables = nil // they may be large
			all = append(all, t)
		}
		if cursor = next; cursor == "" {
			break
		}
	}
	named, kept := tasks.Prune(all, ended, force)
	for i := range named {
		if err := sp.Delete(ctx, named[i].ID); err != nil {
			return named[:i], kept, err
		}
	}
	return named, kept, nil
}
