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

// Get implements tasks.Store. If another process runs the task, its log is the output that was stored so far.
func (s *store) Get(ctx context.Context, id string) (tasks.Task, error) {
	d, err := s.open()
	if err != nil {
		return tasks.Task{}, err
	}
	r, err := d.current(ctx, s.owner, id, "outcome", d.o.Now().UnixNano())
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

// Head implements tasks.Store.
func (s *store) Head(ctx context.Context, id string) (tasks.Task, error) {
	d, err := s.open()
	if err != nil {
		return tasks.Task{}, err
	}
	r, err := d.current(ctx, s.owner, id, "NULL", d.o.Now().UnixNano())
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

// List implements tasks.Store. The oldest first, the rest begins after the number of a task.
func (s *store) List(ctx context.Context, direction tasks.Direction, from string,
	n int) (list []tasks.Task, rest string, err error) {
	d, err := s.open()
	if err != nil {
		return nil, "", err
	}
	condition, place := "number > ? AND "+d.o.visible()+" ORDER BY number LIMIT ?", int64(0)
	if direction == tasks.NewestFirst {
		condition, place = "number < ? AND "+d.o.visible()+" ORDER BY number DESC LIMIT ?", math.MaxInt64
	}
	switch now := d.o.Now().UnixNano(); {
	case from == "":
	case direction == tasks.OldestFirst:
		place, err = s.cursors.open(from)
	default:
		var r row
		if r, err = d.row(ctx, s.owner, from, "NULL", now); errors.Is(err, tasks.ErrNotFound) {
			err = tasks.ErrCursor
		}
		place = r.number
	}
	if err != nil {
		return nil, "", err
	}
	page, err := d.list(ctx, condition, s.owner, place, d.o.Now().UnixNano(), n+1)
	if err != nil {
		return nil, "", err
	}
	for i := range page[:min(n, len(page))] {
		list = append(list, page[i].Task)
	}
	switch {
	case len(page) <= n:
	case direction == tasks.OldestFirst:
		rest = s.cursors.seal(page[n-1].number)
	default:
		rest = page[n-1].ID
	}
	return list, rest, nil
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
