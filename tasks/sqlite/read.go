package sqlite

import (
	"context"
	"database/sql"

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
func (d *database) output(r *row) *keeping { return &keeping{db: d, task: r.number, id: r.ID} }

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
	}, "SELECT "+taskColumns+", "+outcomeColumn+`, variables, arguments, (SELECT stop FROM log WHERE task = number ORDER BY start DESC LIMIT 1)
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
	page, err := d.list(ctx, owner, after, n+1)
	for i := range page {
		if d.orphaned(page[i].keeper) {
			if err = d.recover(page[i].keeper); err != nil {
				return nil, "", err
			}
			page, err = d.list(ctx, owner, after, n+1)
			break
		}
	}
	if err != nil {
		return nil, "", err
	}
	next := ""
	if len(page) > n {
		page = page[:n]
		next = s.cursors.seal(page[n-1].number)
	}
	list := make([]tasks.Task, len(page))
	for i := range page {
		list[i] = page[i].Task
	}
	return list, next, nil
}

func (d *database) list(ctx context.Context, owner string, after int64, n int) ([]row, error) {
	var page []row
	err := d.each(ctx, func(scan func(...any) error) error {
		r, err := scanTask(scan)
		page = append(page, r)
		if r.damage != "" {
			d.tell(r.number, r.ID, r.damage)
		}
		return err
	}, "SELECT "+taskColumns+" FROM task WHERE owner = ? AND number > ? AND "+d.o.visible()+" ORDER BY number LIMIT ?",
		owner, after, d.o.Now().UnixNano(), n)
	return page, err
}
