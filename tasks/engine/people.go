package engine

import (
	"context"
	"slices"
	"strings"
	"time"

	"runnel/tasks"
)

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
