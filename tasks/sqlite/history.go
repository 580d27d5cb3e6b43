package sqlite

import (
	"context"

	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/tasks"
)

// History implements tasks.Historian.
func (s *store) History() tasks.History { return s.o.History }

// Record implements tasks.Historian. One transaction stores all of them, since it costs as much as several
// calls.
func (s *store) Record(calls ...tasks.Task) error {
	d, err := s.open()
	if err != nil {
		return err
	}
	rows := make([]recorded, len(calls))
	for n, t := range calls {
		r := &rows[n]
		d.mu.Lock()
		r.backing = d.live[t.ID]
		d.mu.Unlock()
		if r.isNew = r.backing == nil; r.isNew {
			r.backing = &backing{db: d, id: t.ID, owner: t.Owner, log: t.Log, segments: t.Segments}
		}
		defer d.forget(t.ID)
		if r.outcome, err = tasks.EncodeOutcome(&t); err != nil {
			return err
		}
	}
	return d.w.do(job{do: func(tx *transaction) error {
		for n, t := range calls {
			if err := rows[n].record(tx, t); err != nil {
				return err
			}
		}
		_, err := tx.exec(tooMany, s.owner, d.o.History.Calls)
		return err
	}, done: func(committed bool) {
		for _, r := range rows {
			r.done(committed)
		}
	}})
}

// recorded is a call that has ended and is being stored.
type recorded struct {
	*backing
	isNew   bool // it was not put as hidden
	outcome []byte
}

// Due implements partials.Backing: record writes the output.
func (r recorded) Due(bool) {}

func (r *recorded) record(tx *transaction, t tasks.Task) error {
	if r.isNew {
		if err := r.db.insertRow(tx, r.backing, &t, hiddenExpires); err != nil {
			return err
		}
		if !r.log.Backed() { // otherwise this is another try
			r.log.Back(r)
		}
	}
	if err := r.write(tx); err != nil {
		return err
	}
	_, err := tx.exec(`UPDATE task SET status = ?, message = ?, updated = ?, ttl = ?, expires = ?, outcome = ?, merge = 0, arguments = ?, keeper = NULL
		WHERE number = ? AND keeper = ?`,
		t.Status, t.StatusMessage, t.UpdatedAt.UnixNano(), int64(t.TTL), -expires(&t), r.outcome,
		[]byte(t.Arguments), r.task, r.db.lease.name)
	return err
}

// tooMany lets the oldest calls of an owner's history expire. The index holds those of all owners, and few
// other rows below -1.
const tooMany = `UPDATE task SET expires = 0 WHERE number IN (
	SELECT number FROM task INDEXED BY task_expires WHERE expires < -1 AND owner = ? AND keeper IS NULL ORDER BY number DESC LIMIT -1 OFFSET ?)`

// remember makes calls of the history of the newest tasks that have expired.
func (d *database) remember(ctx context.Context) error {
	const some = "expires BETWEEN 1 AND ? AND keeper IS NULL"
	if d.o.History.Calls == 0 {
		return nil
	}
	now := d.o.Now().UnixNano()
	var any bool
	err := d.read.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM task WHERE "+some+")", now).Scan(&any)
	if err != nil || !any {
		return explain(err)
	}
	return d.w.do(job{do: func(tx *transaction) error {
		owners, err := column[string](tx.query("SELECT DISTINCT owner FROM task WHERE "+some, now))
		if err != nil {
			return err
		}
		_, err = tx.exec(`UPDATE task SET ttl = ?, expires = -(created + ?), merge = 0,
			outcome = CASE WHEN length(outcome) <= ? THEN outcome WHEN status = 'completed' THEN ? ELSE ? END
			WHERE number IN (SELECT number FROM task WHERE `+some+
			" AND created > ? ORDER BY number DESC LIMIT ?)",
			int64(d.o.History.Age), int64(d.o.History.Age), d.o.History.Log, tooLong(false), tooLong(true),
			now, now-int64(d.o.History.Age), d.o.History.Calls)
		for _, owner := range owners {
			if err == nil {
				_, err = tx.exec(tooMany, owner, d.o.History.Calls)
			}
		}
		return err
	}})
}

// tooLong is the outcome, encoded, of a task whose own is too long for the history.
func tooLong(isError bool) []byte {
	result := mcp.Result("The history keeps no result of this size.")
	result.IsError = isError
	segments := partials.NewSegments(partials.NewLog(nil))
	outcome, err := tasks.EncodeOutcome(&tasks.Task{Outcome: &tasks.Outcome{Result: result},
		Segments: segments})
	if err != nil {
		panic("internal error: " + err.Error())
	}
	return outcome
}

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
			_, err := tx.exec("DELETE FROM log WHERE rowid IN (SELECT log.rowid "+longer+" LIMIT ?)",
				d.o.History.Log, sliceRows)
			return err
		}}); err != nil {
			return err
		}
	}
}
