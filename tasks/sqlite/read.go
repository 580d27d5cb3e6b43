package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"slices"

	"runnel/partials"
	"runnel/tasks"
)

// Get implements tasks.State. If another process runs the task, its log is the output that was stored so far.
func (s *State) Get(ctx context.Context, owner, id string) (tasks.Task, error) {
	d, err := s.open()
	if err != nil {
		return tasks.Task{}, err
	}
	r, err := d.current(ctx, owner, id, "outcome", d.o.Now().UnixNano())
	if err != nil {
		return tasks.Task{}, err
	}
	k := d.output(&r)
	ends, err := k.segmentsOf(ctx, &r)
	r.Log = partials.Stored(k, r.end)
	r.Segments = partials.RestoreSegments(r.Log, ends, r.ending)
	if r.keeper != "" {
		r.Segments.Follow()
	}
	return r.Task, err
}

// Head implements tasks.State.
func (s *State) Head(ctx context.Context, owner, id string) (tasks.Task, error) {
	d, err := s.open()
	if err != nil {
		return tasks.Task{}, err
	}
	r, err := d.current(ctx, owner, id, "NULL", d.o.Now().UnixNano())
	r.Log = partials.Stored(d.output(&r), r.end)
	return r.Task, err
}

// output returns the stored output of a task, for reading.
func (d *database) output(r *row) *backing { return &backing{db: d, task: r.number, id: r.ID} }

// current returns a task from the database, after a check that its keeper lives. outcome is the expression
// that is read as its outcome. A task that has ended and expired before at, in nanoseconds, is not found.
func (d *database) current(ctx context.Context, owner, id, outcome string, at int64) (row, error) {
	r, err := d.row(ctx, owner, id, outcome, at)
	if err == nil && d.orphaned(r.keeper) {
		if err = d.recover(r.keeper); err == nil {
			r, err = d.row(ctx, owner, id, outcome, at)
		}
	}
	return r, err
}

func (d *database) row(ctx context.Context, owner, id, outcomeColumn string, at int64) (r row, err error) {
	var outcome, variables, arguments []byte
	var end sql.NullInt64
	found := false
	err = d.each(ctx, func(scan func(...any) error) (err error) {
		found = true
		r, err = scanTask(scan, &outcome, &variables, &arguments, &end)
		return err
	}, "SELECT "+taskColumns+", "+outcomeColumn+
		`, variables, arguments, (SELECT stop FROM log WHERE task = number ORDER BY start DESC LIMIT 1)
		FROM task WHERE id = ? AND owner = ? AND `+d.o.visible(), id, owner, at)
	switch {
	case err != nil:
		return row{}, err
	case !found:
		return row{}, tasks.ErrNotFound
	}
	r.end = max(end.Int64, 0)
	r.Arguments = tasks.DecodeArguments(arguments)
	r.decode(outcome, variables)
	if r.damage != "" {
		d.tell(r.number, r.ID, r.damage)
	}
	return r, nil
}

// List implements tasks.State. A cursor holds the number of the last task shown.
func (s *State) List(ctx context.Context, owner, cursor string, n int) ([]tasks.Task, string, error) {
	var after int64
	if cursor != "" {
		var err error
		if after, err = s.cursors.open(cursor); err != nil {
			return nil, "", err
		}
	}
	d, err := s.open()
	if err != nil {
		return nil, "", err
	}
	page, err := d.list(ctx, "number > ? AND "+d.o.visible()+" ORDER BY number LIMIT ?", owner, after,
		d.o.Now().UnixNano(), n+1)
	if err != nil {
		return nil, "", err
	}
	next := ""
	if len(page) > n {
		page = page[:n]
		next = s.cursors.seal(page[n-1].number)
	}
	return tasksOf(page), next, nil
}

// Newest implements tasks.State.
func (s *State) Newest(ctx context.Context, owner, before string, n int) ([]tasks.Task, error) {
	d, err := s.open()
	if err != nil {
		return nil, err
	}
	end := int64(math.MaxInt64)
	if before != "" {
		r, err := d.row(ctx, owner, before, "NULL", d.o.Now().UnixNano())
		if errors.Is(err, tasks.ErrNotFound) {
			return nil, tasks.ErrCursor
		} else if err != nil {
			return nil, err
		}
		end = r.number
	}
	page, err := d.list(ctx, "number < ? AND "+d.o.visible()+" ORDER BY number DESC LIMIT ?", owner, end,
		d.o.Now().UnixNano(), n)
	return tasksOf(page), err
}

func tasksOf(rows []row) []tasks.Task {
	list := make([]tasks.Task, len(rows))
	for i := range rows {
		list[i] = rows[i].Task
	}
	return list
}

// list reads the tasks of an owner that a condition chooses, after a check that their keepers live.
func (d *database) list(ctx context.Context, condition string, arguments ...any) (page []row, err error) {
	for again := true; ; again = false {
		page = nil
		err = d.each(ctx, func(scan func(...any) error) error {
			r, err := scanTask(scan)
			page = append(page, r)
			if r.damage != "" {
				d.tell(r.number, r.ID, r.damage)
			}
			return err
		}, "SELECT "+taskColumns+" FROM task WHERE owner = ? AND "+condition, arguments...)
		at := slices.IndexFunc(page, func(r row) bool { return d.orphaned(r.keeper) })
		if err != nil || at < 0 || !again {
			return page, err
		}
		if err = d.recover(page[at].keeper); err != nil {
			return nil, err
		}
	}
}
