package tasks

import (
	"context"
	"errors"
	"slices"
)

// maxMade is how many of the tasks that this process has made it remembers as its own.
const maxMade = 10_000

// remember notes a task of this process. r.mu is held.
func (r *Runner) remember(id string) {
	if len(r.made) == maxMade {
		r.made = append(r.made[:0], r.made[maxMade/2:]...)
	}
	r.made = append(r.made, id)
}

// Newest returns up to n of the owner's tasks, the newest first: those that are older than the one with the id before, if it is not
// empty; with own only those that this process has made. more tells that there are more of them. It fails with ErrCursor if there is
// no task before.
func (r *Runner) Newest(ctx context.Context, n int, before string, own bool) (page []Task, more bool, err error) {
	ids, err := r.olderThan(ctx, n, before, own)
	if err != nil {
		return nil, false, err
	}
	for _, id := range slices.Backward(ids) {
		t, err := r.Get(ctx, id)
		switch {
		case errors.Is(err, ErrNotFound): // it has expired
			continue
		case err != nil:
			return nil, false, err
		case len(page) == n:
			return page, true, nil
		}
		page = append(page, t)
	}
	return page, false, nil
}

// olderThan are the ids of the tasks that Newest looks at: of all, the last n and one.
func (r *Runner) olderThan(ctx context.Context, n int, before string, own bool) (ids []string, err error) {
	if own {
		r.mu.Lock()
		ids = slices.Clone(r.made)
		r.mu.Unlock()
		if before == "" {
			return ids, nil
		}
		if i := slices.Index(ids, before); i >= 0 {
			return ids[:i], nil
		}
		return nil, ErrCursor
	}
	const page = 200
	for cursor := ""; ; {
		var some []Task
		if some, cursor, err = r.o.State.List(ctx, r.o.Owner, cursor, page); err != nil {
			return nil, err
		}
		for _, t := range some {
			if t.ID == before {
				return ids, nil
			}
			ids = append(ids, t.ID)
		}
		ids = ids[max(0, len(ids)-n-1):]
		if cursor == "" {
			break
		}
	}
	if before != "" {
		return nil, ErrCursor
	}
	return ids, nil
}
