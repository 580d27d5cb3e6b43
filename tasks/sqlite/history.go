package sqlite

import (
	"context"

	"runnel/rpc/mcp"
	"runnel/tasks"
)

// History implements tasks.Historian.
func (s *State) History() tasks.History { return s.o.History }

// Record implements tasks.Historian.
func (s *State) Record(t tasks.Task) error {
	d, err := s.open()
	if err != nil {
		return err
	}
	d.mu.Lock()
	k := d.live[t.ID]
	d.mu.Unlock()
	if k == nil {
		running := t
		running.Status = mcp.TaskWorking
		if k, err = d.insert(running, true); err != nil {
			return err
		}
	}
	defer d.forget(t.ID)
	outcome, err := tasks.EncodeOutcome(&t)
	if err != nil {
		return err
	}
	return d.w.do(job{do: func(tx *transaction) error {
		if err := k.write(tx); err != nil {
			return err
		}
		_, err := tx.exec(`UPDATE task SET status = ?, message = ?, updated = ?, ttl = ?, expires = ?, outcome = ?, merge = 0, arguments = ?, keeper = NULL
			WHERE number = ? AND keeper = ?`,
			t.Status, t.StatusMessage, t.UpdatedAt.UnixNano(), int64(t.TTL), -expires(&t), outcome, []byte(t.Arguments), k.task, d.lease.name)
		if err == nil {
			_, err = tx.exec(tooMany, t.Owner, d.o.History.Calls)
		}
		return err
	}, done: k.done})
}

// tooMany lets the oldest calls of an owner's history expire. The index holds those of all owners, and few other rows below -1.
const tooMany = `UPDATE task SET expires = 0 WHERE number IN (
	SELECT number FROM task INDEXED BY task_expires WHERE expires < -1 AND owner = ? AND keeper IS NULL ORDER BY number DESC LIMIT -1 OFFSET ?)`

// shortenHistory deletes the output of calls in the history but for its end.
func (d *database) shortenHistory(ctx context.Context) error {
	const longer = `FROM task INDEXED BY task_expires JOIN log ON log.task = task.number WHERE expires < -1 AND keeper IS NULL
		AND log.stop <= (SELECT max(stop) FROM log WHERE task = number) - ?`
	for {
		var some bool
		err := d.read.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 "+longer+")", d.o.History.Log).Scan(&some)
		if err != nil || !some {
			return explain(err)
		}
		if err := d.w.do(job{do: func(tx *transaction) error {
			_, err := tx.exec("DELETE FROM log WHERE rowid IN (SELECT log.rowid "+longer+" LIMIT ?)", d.o.History.Log, sliceRows)
			return err
		}}); err != nil {
			return err
		}
	}
}
