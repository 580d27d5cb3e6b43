package sqlite

import (
	"context"
	"database/sql"
	"path/filepath"
	"sync"
	"time"

	"runnel/partials"
	"runnel/rpc/mcp"
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

// orphaned reports whether a task's keeper is gone: the task has not ended, and no process runs it.
func (d *database) orphaned(keeper string) bool {
	return keeper != "" && d.gone(keeper)
}

// gone reports whether the process that took a lease is gone.
func (d *database) gone(keeper string) bool {
	if keeper == d.lease.name {
		return false
	}
	return d.absent.see(keeper, holderOf(filepath.Join(d.o.Dir, leaseDir), keeper, func() {}), time.Now())
}

// keeps reports whether a process is the keeper of a task: its lease must say then whether it lives. If that
// is unknown, it reports true.
func (d *database) keeps(ctx context.Context, keeper string) bool {
	keeps := true
	_ = d.read.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM task WHERE keeper = ?)", keeper).Scan(&keeps)
	return keeps
}

// recoverAll ends the tasks of all processes that are gone.
func (d *database) recoverAll(ctx context.Context) error {
	keepers, err := column[string](d.query(ctx, "SELECT DISTINCT keeper FROM task WHERE keeper IS NOT NULL"))
	for _, keeper := range keepers {
		if err == nil && d.gone(keeper) {
			err = d.recover(keeper)
		}
	}
	return explain(err)
}

// recovering allows one recovery at a time in this process. A recovery of another process finds nothing left
// to do.
var recovering sync.Mutex

// recover ends the tasks of a process that is gone: they fail, with the output so far.
func (d *database) recover(keeper string) error {
	recovering.Lock()
	defer recovering.Unlock()
	ctx := context.Background()
	var left []row
	err := d.each(ctx, func(scan func(...any) error) error {
		var r row
		var created, ttl int64
		var asked bool
		err := scan(&r.number, &r.ID, &r.Owner, &r.Tool, &created, &ttl, &r.Detached, &r.Hidden, &asked, (*[]byte)(&r.Variables))
		r.CreatedAt, r.TTL = time.Unix(0, created), time.Duration(ttl)
		if !r.Hidden && !asked && r.LeftAt(d.o.Now()) {
			return err // it goes on in the process that takes it
		}
		r.asked, r.TTL = asked, d.o.History.Age
		left = append(left, r)
		return err
	}, "SELECT number, id, owner, tool, created, ttl, work IS NOT NULL, expires < 0, asked, variables "+
		"FROM task WHERE keeper = ? AND (expires >= 0 OR ?)",
		keeper, d.o.History.Calls > 0)
	if err != nil {
		return err
	}
	if d.o.History.Calls == 0 {
		if err := d.w.do(job{do: func(tx *transaction) error {
			if !d.gone(keeper) {
				return nil
			}
			_, err := tx.exec("UPDATE task SET keeper = NULL WHERE keeper = ? AND expires < 0", keeper)
			return err
		}}); err != nil {
			return err
		}
	}
	for i := range left {
		r := &left[i]
		var end sql.NullInt64
		// The part that can be read is shown.
		_ = d.read.QueryRowContext(ctx, "SELECT max(stop) FROM log WHERE task = ?", r.number).Scan(&end)
		r.Log = partials.Stored(d.output(r), end.Int64)
		if r.asked && tasks.Resumes(r.Variables) != "" {
			r.EndUnkept(ctx, mcp.TaskCancelled, "cancelled while no runnel ran it")
		} else {
			r.FailOrphan(ctx)
		}
		r.UpdatedAt = d.o.Now()
		outcome, err := tasks.EncodeOutcome(&r.Task)
		if err != nil {
			return err
		}
		var ended int64
		if err := d.w.do(job{durable: true, do: func(tx *transaction) (err error) {
			if !d.gone(keeper) { // it has taken its lease again
				return nil
			}
			ended, err = tx.change(`UPDATE task SET status = ?, message = ?, updated = ?, outcome = ?, keeper = NULL,
				ttl = iif(expires < 0, ?, ttl), expires = iif(expires < 0, ?, expires) WHERE number = ? AND keeper = ?`,
				r.Status, r.StatusMessage, r.UpdatedAt.UnixNano(), outcome, int64(r.TTL), -expires(&r.Task),
				r.number, keeper)
			return err
		}}); err != nil {
			return err
		}
		if ended > 0 {
			d.o.Log.Info().Str("taskId", r.ID).Str("owner", r.Owner).Str("tool", r.Tool).
				Msg("task recovered: its runnel is gone")
			if !r.Hidden && !tasks.IsFiles(r.ID) { // its client waits for no notice
				d.o.Recovered(&r.Task)
			}
		}
	}
	return nil
}
