package sqlite

import (
	"context"
	"time"

	"runnel/tasks"
)

// A detached task changes its keeper once: from the process that stored it to the supervisor that runs it. A
// task that resumes changes it whenever its keeper is gone. All others follow what the keeper writes.

// Take implements tasks.Shared.
func (s *store) Take(ctx context.Context, t tasks.Task, work []byte) (tasks.Task, error) {
	d, err := s.open()
	if err != nil {
		return tasks.Task{}, err
	}
	r, err := d.row(ctx, s.owner, t.ID, "outcome", d.o.Now().UnixNano())
	if err != nil {
		return tasks.Task{}, err
	}
	resumes := r.keeper != "" && r.LeftAt(d.o.Now())
	if resumes && !d.gone(r.keeper) {
		return tasks.Task{}, tasks.ErrTaken
	}
	var taken int64
	err = d.w.do(job{durable: true, do: func(tx *transaction) (err error) {
		taken, err = tx.change("UPDATE task SET keeper = ?, work = ? WHERE id = ? AND owner = ? AND "+
			"keeper IS NOT NULL AND (work IS NULL OR ?) AND keeper = ?",
			d.lease.name, work, t.ID, s.owner, resumes, r.keeper)
		return err
	}})
	if err == nil && taken == 0 {
		err = tasks.ErrTaken
	}
	if err != nil {
		return tasks.Task{}, err
	}
	// The keeper before has ended, or has not begun, so nothing more of its output will come.
	if r, err = d.row(ctx, s.owner, t.ID, "outcome", d.o.Now().UnixNano()); err != nil {
		return tasks.Task{}, err
	}
	k := &backing{db: d, task: r.number, id: r.ID, owner: r.Owner, log: t.Log, segments: t.Segments,
		numbers: true}
	if r.end > 0 {
		if err := k.resume(ctx, &r); err != nil {
			return tasks.Task{}, err
		}
	}
	r.Log, r.Segments = t.Log, t.Segments
	d.keep(k)
	return r.Task, nil
}

// resume continues the output of a task after what its keeper before has stored.
func (k *backing) resume(ctx context.Context, r *row) error {
	ends, err := k.segmentsOf(ctx, r)
	if err != nil {
		return err
	}
	k.written = extent{end: r.end, segments: len(ends)}
	if len(ends) > 0 {
		k.written.last = ends[len(ends)-1]
	}
	err = k.db.each(ctx, func(scan func(...any) error) error { return scan(&k.written.kept) },
		"SELECT coalesce(sum(stop - start), 0) FROM log WHERE task = ?", k.task)
	k.pending = k.written
	k.log.Resume(r.end)
	k.segments.Continue(ends)
	return err
}

// Left implements tasks.Shared.
func (s *store) Left(ctx context.Context) (list []tasks.Task, err error) {
	d, err := s.open()
	if err != nil {
		return nil, err
	}
	err = d.each(ctx, func(scan func(...any) error) error {
		var t tasks.Task
		var keeper string
		var created int64
		err := scan(&t.ID, &t.Tool, &t.Status, &created, &t.TTL, &keeper, (*[]byte)(&t.Variables))
		t.Owner, t.CreatedAt = s.owner, time.Unix(0, created)
		if err == nil && t.LeftAt(d.o.Now()) && d.gone(keeper) {
			list = append(list, t)
		}
		return err
	}, `SELECT id, tool, status, created, ttl, keeper, variables FROM task
		WHERE keeper IS NOT NULL AND keeper <> ? AND owner = ? AND asked = 0 AND expires >= 0 AND instr(variables, '"'||?||'"') > 0`,
		d.lease.name, s.owner, tasks.ResumeNote)
	return list, err
}
