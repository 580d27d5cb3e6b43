package run

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks"
	"runnel/tasks/files"
)

// Running returns the Run of a task that has a handle and has not ended, or whose end is not stored; nil if
// there is none.
func (r *Runner) Running(id string) *Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.live[id]
}

// view returns the view of a task that this process runs or follows, or nil.
func (r *Runner) view(id string) *View {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.viewLocked(id)
}

// viewLocked is view for callers that hold mu.
func (r *Runner) viewLocked(id string) *View {
	if run := r.live[id]; run != nil {
		return &run.View
	}
	return r.followed[id]
}

// Get returns a task of the owner as it is now, or ErrNotFound.
func (r *Runner) Get(ctx context.Context, id string) (tasks.Task, error) {
	return r.get(ctx, id, r.store.Get)
}

// Head is Get without the outcome and the segments of a task that has ended.
func (r *Runner) Head(ctx context.Context, id string) (tasks.Task, error) {
	return r.get(ctx, id, r.store.Head)
}

func (r *Runner) get(ctx context.Context, id string,
	stored func(ctx context.Context, id string) (tasks.Task, error)) (tasks.Task, error) {
	if v := r.view(id); v != nil {
		return v.live(), nil
	}
	if tasks.IsFiles(id) {
		return tasks.Task{}, tasks.ErrNotFound
	}
	t, err := stored(ctx, id)
	showNotes(&t)
	if err == nil && t.Status == mcp.TaskWorking { // in another process
		showLine(&t, t.LastLine(ctx))
	}
	return t, err
}

// List returns a page of the owner's tasks, as State.List does. The page may be shorter than n although there
// are more: tasks that keep files of others are left out.
func (r *Runner) List(ctx context.Context, cursor string, n int) ([]tasks.Task, string, error) {
	page, _, next, err := r.ListWithFiles(ctx, cursor, n)
	return page, next, err
}

// ListWithFiles is List; made are the ids of tasks that have made files, on this page or on one before.
func (r *Runner) ListWithFiles(ctx context.Context, cursor string,
	n int) (page []tasks.Task, made []string, next string, err error) {
	page, next, err = r.store.List(ctx, tasks.OldestFirst, cursor, n)
	page = slices.DeleteFunc(page, func(t tasks.Task) bool {
		id, keeps := tasks.MakerOf(t.ID)
		if keeps {
			made = append(made, id)
		}
		return keeps
	})
	for i := range page {
		if v := r.view(page[i].ID); v != nil {
			page[i] = v.live()
		}
	}
	return page, made, next, err
}

// While a task is working, its status message is the last line of its output: some hosts show nothing else.

// LinePace is the shortest time between two status notifications that only show the last line of output. The
// handle counts as one, so a task that ends sooner shows no line; the terminal status does not.
const LinePace = time.Second

// Status returns the task as it is now, with a message that says what it is doing.
func (v *View) Status(message string) mcp.Task {
	t := v.show(message)
	t.StatusMessage = statusMessage(&t, message)
	return t.Wire(v.runner.o.PollInterval)
}

// live returns the task as it is now; while it is working, its message is the last line of its output.
func (v *View) live() tasks.Task {
	line := v.log.Tail(tasks.TailBytes).LastLine()
	t := v.show(line)
	if t.Status == mcp.TaskWorking {
		showLine(&t, line)
	}
	return t
}

// showLine makes the last line of output the status message of a working task. A task that waits for a worker
// keeps its own message.
func showLine(t *tasks.Task, line string) {
	if !t.Waiting {
		t.StatusMessage = statusMessage(t, line)
	}
}

// statusMessage returns a message after what the tool has found in its output, since a list shows the first
// line alone.
func statusMessage(t *tasks.Task, message string) string {
	if matches := t.Matches.Message(); matches != "" {
		message = strings.TrimSuffix(matches+"\n"+message, "\n")
	}
	return tasks.Clip(message)
}

// show returns the task as it is now. If line differs from the one that was last shown, lastUpdatedAt
// changes.
func (v *View) show(line string) tasks.Task {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.task.Status == mcp.TaskWorking && line != v.shown {
		v.shown, v.task.UpdatedAt = line, time.Now()
	}
	return v.task
}

// maxMade is how many of its own tasks this process remembers.
const maxMade = 10_000

// remember records a task as made by this process. r.mu is held.
func (r *Runner) remember(t *tasks.Task) {
	if len(r.made) == maxMade {
		r.made = append(r.made[:0], r.made[maxMade/2:]...)
	}
	r.made = append(r.made, madeTask{t.ID, t.CreatedAt.Round(0).Add(t.TTL)})
}

// Newest returns up to n of the owner's tasks, newest first: if before is not "", only those older than that
// task; with own, only those that this process has made. more reports whether there are others. It fails with
// ErrCursor if the task before is unknown.
func (r *Runner) Newest(ctx context.Context, n int, before string,
	own bool) (page []tasks.Task, more bool, err error) {
	var ids []string
	if own {
		ids, err = r.ownIDs(before)
	} else {
		ids, err = r.lastIDs(ctx, n+1, before, func(*tasks.Task) bool { return true })
	}
	if err != nil {
		return nil, false, err
	}
	return pageOf(ctx, ids, n, r.Get)
}

// maxEarlier is among how many of the newest tasks Earlier looks.
const maxEarlier = 200

// Earlier is Newest for the tasks of all processes with this one's Options.Place.
func (r *Runner) Earlier(ctx context.Context, n int,
	before string) (page []tasks.Task, more bool, err error) {
	if r.o.Place == "" {
		return nil, false, nil
	}
	newest, _, err := r.store.List(ctx, tasks.NewestFirst, before, maxEarlier)
	if err != nil {
		return nil, false, err
	}
	ids := make([]string, len(newest))
	for i := range newest {
		ids[i] = newest[i].ID
	}
	return pageOf(ctx, ids, n, func(ctx context.Context, id string) (tasks.Task, error) {
		t, err := r.Head(ctx, id) // a list has no variables
		switch {
		case err != nil:
			return t, err
		case rawjson.StringMember(t.Variables, tasks.PlaceNote) != r.o.Place:
			return t, tasks.ErrNotFound
		}
		return r.Get(ctx, id)
	})
}

// Last is Newest for the tasks that wanted accepts; they are as Head returns them. wanted gets tasks without
// outcome and output.
func (r *Runner) Last(ctx context.Context, n int, before string,
	wanted func(*tasks.Task) bool) (page []tasks.Task, more bool, err error) {
	ids, err := r.lastIDs(ctx, n+1, before, wanted)
	if err != nil {
		return nil, false, err
	}
	return pageOf(ctx, ids, n, r.Head)
}

// pageOf returns up to n tasks with the given ids, and reports whether there are more.
func pageOf(ctx context.Context, ids []string, n int,
	get func(context.Context, string) (tasks.Task, error)) (page []tasks.Task, more bool, err error) {
	for _, id := range ids {
		t, err := get(ctx, id)
		switch {
		case errors.Is(err, tasks.ErrNotFound): // it has expired
		case err != nil:
			return nil, false, err
		case len(page) == n:
			return page, true, nil
		default:
			page = append(page, t)
		}
	}
	return page, false, nil
}

// ownIDs returns the ids of the tasks that this process made before another task, as far as they can still be
// found, newest first.
func (r *Runner) ownIDs(before string) (ids []string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	end := len(r.made)
	if before != "" {
		end = slices.IndexFunc(r.made, func(made madeTask) bool { return made.id == before })
		if end < 0 {
			return nil, tasks.ErrCursor
		}
	}
	for _, made := range slices.Backward(r.made[:end]) {
		if r.live[made.id] != nil || r.o.now().Before(made.expires) { // in a long session most have expired
			ids = append(ids, made.id)
		}
	}
	return ids, nil
}

// lastIDs returns the ids of at least the last n wanted tasks of the owner before another task, newest first.
func (r *Runner) lastIDs(ctx context.Context, n int, before string,
	wanted func(*tasks.Task) bool) (ids []string, err error) {
	const page = 200
	for first := true; ; first = false {
		some, rest, err := r.store.List(ctx, tasks.NewestFirst, before, max(n, page))
		if errors.Is(err, tasks.ErrCursor) && !first {
			some, err = nil, nil // the task was deleted, and those that are older before it
		}
		if err != nil {
			return nil, err
		}
		for i := range some {
			before = some[i].ID
			if v := r.view(before); v != nil {
				some[i] = v.live()
			}
			if !tasks.IsFiles(before) && wanted(&some[i]) {
				ids = append(ids, before)
			}
		}
		if rest == "" || len(ids) >= n {
			return ids, nil
		}
	}
}

// Own returns a function that reports whether this process has made the task with an id.
func (r *Runner) Own() func(id string) bool {
	own := map[string]bool{}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, made := range r.made {
		own[made.id] = true
	}
	return func(id string) bool { return own[id] }
}

// Files returns the files that a task of the owner has made, or ErrNotFound.
func (r *Runner) Files(ctx context.Context, id string) (*files.Set, error) {
	return files.Open(ctx, r.store, id)
}
