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
