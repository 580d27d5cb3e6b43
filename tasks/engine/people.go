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

// Forget deletes the tasks that have ended by a time, and returns them as List does. It keeps tasks
// that have not ended, those that such a task needs and, unless forced, those whose result has not been
// fetched; kept is the number of these.
func (sp *Space) Forget(ctx context.Context, ended time.Time,
	force bool) (gone []tasks.Task, kept int, err error) {
	head := func(id string) (tasks.Task, error) { return sp.Head(ctx, id) }
	for cursor := ""; ; {
		page, next, err := sp.List(ctx, tasks.OldestFirst, cursor, someTasks)
		if err != nil {
			return gone, kept, err
		}
		page = slices.DeleteFunc(page, func(t tasks.Task) bool {
			return !t.Status.Terminal() || t.UpdatedAt.After(ended) || tasks.IsFiles(t.ID)
		})
		ids := make([]string, len(page))
		for i := range page {
			ids[i] = page[i].ID
		}
		fetched, err := sp.Fetched(ctx, ids)
		if err != nil {
			return gone, kept, err
		}
		for i := range page {
			if !force && !fetched[page[i].ID] {
				kept++
				continue
			}
			needed, err := tasks.Needed(page[i].Variables, head)
			if err != nil {
				return gone, kept, err
			}
			if needed {
				continue
			}
			if err := sp.Delete(ctx, page[i].ID); err != nil {
				return gone, kept, err
			}
			gone = append(gone, page[i])
		}
		if cursor = next; cursor == "" {
			return gone, kept, nil
		}
	}
}
