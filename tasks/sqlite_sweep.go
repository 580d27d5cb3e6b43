package tasks

import (
	"context"
	"database/sql"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"runnel/partials"
	"runnel/rpc/mcp"
)

// sweeper keeps the state in order: it ends the tasks of processes that are gone, deletes what has expired and,
// when the state has grown too large, what ended first. Each process has one; what two of them do at once is
// done once, because every step is one transaction that looks again.
type sweeper struct {
	db   *database
	wake chan struct{} // capacity 1
	stop context.CancelFunc
	done chan struct{}
}

const (
	// sweepInterval is how long an expired task may take up space.
	sweepInterval = 30 * time.Second
	// sweepRest is the least time between two sweeps, and how long a hurried one waits for more of the kind.
	sweepRest = time.Second
	// sliceRows bounds one deleting transaction: 32 MiB, some ten milliseconds in which no other process can write.
	sliceRows = 512
	// vacuumPages are given back to the file system at a time: 16 MiB.
	vacuumPages = 4096
)

func startSweeper(db *database) *sweeper {
	ctx, stop := context.WithCancel(context.Background())
	s := &sweeper{db: db, wake: make(chan struct{}, 1), stop: stop, done: make(chan struct{})}
	db.w.grown(s.hurry)
	go s.run(ctx)
	return s
}

func (s *sweeper) close() {
	s.stop()
	<-s.done
}

// hurry asks for a sweep soon.
func (s *sweeper) hurry() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *sweeper) run(ctx context.Context) {
	defer close(s.done)
	for {
		if err := s.sweep(ctx); err != nil && ctx.Err() == nil {
			s.db.o.Log.Error().Err(err).Msg("sweeping the state")
		}
		rest := time.NewTimer(sweepRest)
		select {
		case <-rest.C:
		case <-ctx.Done():
			rest.Stop()
			return
		}
		rest.Reset(sweepInterval)
		select {
		case <-s.wake:
		case <-rest.C:
		case <-ctx.Done():
		}
		rest.Stop()
	}
}

func (s *sweeper) sweep(ctx context.Context) error {
	if err := s.db.recoverAll(ctx); err != nil {
		return err
	}
	dropDeadLeases(filepath.Join(s.db.o.Dir, leaseDir))
	for n := 1; n > 0; {
		var err error
		if n, err = s.db.drop(ctx, expired, time.Now().UnixNano()); err != nil {
			return err
		}
	}
	if err := s.evict(ctx); err != nil {
		return err
	}
	return s.db.shrink(ctx)
}

// evict deletes the tasks that ended first until an eighth of the state is free.
func (s *sweeper) evict(ctx context.Context) error {
	for {
		used, err := s.db.used(ctx)
		if err != nil || used <= s.db.o.MaxState-s.db.o.MaxState/8 {
			return err
		}
		n, err := s.db.drop(ctx, endedFirst)
		if err != nil {
			return err
		}
		if n == 0 {
			s.db.o.Log.Warn().Int64("bytes", used).Msg("the state is nearly full, and all of it is of tasks that have not ended")
			return nil
		}
	}
}

// used is how many bytes of the database file hold something.
func (d *database) used(ctx context.Context) (int64, error) {
	var used int64
	err := d.read.QueryRowContext(ctx, `SELECT (page_count - freelist_count) * page_size FROM pragma_page_count(), pragma_freelist_count(), pragma_page_size()`).Scan(&used)
	return used, explain(err)
}

// What drop may delete, and in which order. What nobody finds any more expires at 0.
const (
	expired    = "expires <= ? AND keeper IS NULL ORDER BY expires"
	endedFirst = "keeper IS NULL ORDER BY updated"
)

// dropTasks are deleted in one transaction at most: when room is short, few more than need be.
const dropTasks = 16

// drop deletes some of the tasks that a condition names, and tells how many it found.
func (d *database) drop(ctx context.Context, which string, args ...any) (n int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	err = d.w.do(job{do: func(tx *transaction) error {
		n, err = tx.drop(which, args...)
		return err
	}})
	return n, err
}

// drop deletes some of the tasks that a condition names, with at most sliceRows rows of output. Of a task that has more only a
// part is deleted, and it is not found from then on: the rest goes with the next calls.
func (tx *transaction) drop(which string, args ...any) (n int, err error) {
	numbers, err := tx.numbers("SELECT number FROM task WHERE "+which+" LIMIT "+strconv.Itoa(dropTasks), args...)
	if err != nil {
		return 0, err
	}
	for room := int64(sliceRows); n < len(numbers) && room > 0; n++ {
		r, err := tx.exec("DELETE FROM log WHERE rowid IN (SELECT rowid FROM log WHERE task = ? LIMIT ?)", numbers[n], room)
		if err != nil {
			return 0, err
		}
		rows, err := r.RowsAffected()
		if err != nil {
			return 0, err
		}
		if room -= rows; room == 0 {
			_, err = tx.exec("UPDATE task SET expires = 0, updated = 0 WHERE number = ?", numbers[n])
		} else if _, err = tx.exec("DELETE FROM segment WHERE task = ?", numbers[n]); err == nil {
			_, err = tx.exec("DELETE FROM task WHERE number = ?", numbers[n])
		}
		if err != nil {
			return 0, err
		}
	}
	return n, nil
}

// numbers are the numbers that a query returns.
func (tx *transaction) numbers(query string, args ...any) (list []int64, err error) {
	rows, err := tx.query(query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var n int64
		if err := rows.Scan(&n); err != nil {
			return nil, err
		}
		list = append(list, n)
	}
	return list, rows.Err()
}

// shrink gives free pages back, if there are many of them.
func (d *database) shrink(ctx context.Context) error {
	var free, all int64
	if err := d.read.QueryRowContext(ctx, "SELECT freelist_count, page_count FROM pragma_freelist_count(), pragma_page_count()").Scan(&free, &all); err != nil {
		return explain(err)
	}
	if free < vacuumPages || free < all/4 {
		return nil
	}
	return d.w.do(job{do: func(tx *transaction) error {
		rows, err := tx.query("PRAGMA incremental_vacuum(" + strconv.Itoa(vacuumPages) + ")")
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() { // a page a step
		}
		return rows.Err()
	}})
}

// each calls f with every row of a query.
func (d *database) each(ctx context.Context, f func(scan func(...any) error) error, query string, args ...any) error {
	rows, err := d.read.QueryContext(ctx, query, args...)
	if err != nil {
		return explain(err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := f(rows.Scan); err != nil {
			return explain(err)
		}
	}
	return explain(rows.Err())
}

// orphaned reports whether a task's keeper is gone: the task has not ended, and nobody runs it.
func (d *database) orphaned(keeper string) bool {
	return keeper != "" && keeper != d.lease.name && !leaseHeld(filepath.Join(d.o.Dir, leaseDir), keeper)
}

// recoverAll ends the tasks of all processes that are gone.
func (d *database) recoverAll(ctx context.Context) error {
	var gone []string
	err := d.each(ctx, func(scan func(...any) error) error {
		var keeper string
		err := scan(&keeper)
		if err == nil && d.orphaned(keeper) {
			gone = append(gone, keeper)
		}
		return err
	}, "SELECT DISTINCT keeper FROM task WHERE keeper IS NOT NULL")
	if err != nil {
		return err
	}
	for _, keeper := range gone {
		if err := d.recover(keeper); err != nil {
			return err
		}
	}
	return nil
}

const (
	goneMessage    = "the runnel that ran this task is gone (killed, or it crashed); the output up to then is kept"
	goneSupervisor = "the supervisor that ran this detached task is gone (killed, or it crashed); the output up to then is kept"
)

// recovering makes one recovery at a time in this process; those of others find nothing left to do.
var recovering sync.Mutex

// recover ends the tasks of a process that is gone: they have failed, with what they had written.
func (d *database) recover(keeper string) error {
	recovering.Lock()
	defer recovering.Unlock()
	ctx := context.Background()
	var left []row
	err := d.each(ctx, func(scan func(...any) error) error {
		var r row
		err := scan(&r.number, &r.ID, &r.Owner, &r.Tool, &r.Detached)
		left = append(left, r)
		return err
	}, "SELECT number, id, owner, tool, work IS NOT NULL FROM task WHERE keeper = ? AND expires >= 0", keeper)
	if err != nil {
		return err
	}
	if err := d.w.do(job{do: func(tx *transaction) error {
		_, err := tx.exec("UPDATE task SET keeper = NULL WHERE keeper = ? AND expires < 0", keeper)
		return err
	}}); err != nil {
		return err
	}
	for i := range left {
		r := &left[i]
		message := goneMessage
		if r.Detached {
			message = goneSupervisor
		}
		outcome, err := encodeOutcome(d.remains(ctx, r.number, message))
		if err != nil {
			return err
		}
		var ended int64
		if err := d.w.do(job{durable: true, do: func(tx *transaction) error {
			u, err := tx.exec("UPDATE task SET status = ?, message = ?, updated = ?, outcome = ?, keeper = NULL WHERE number = ? AND keeper = ?",
				mcp.TaskFailed, message, time.Now().UnixNano(), outcome, r.number, keeper)
			if err == nil {
				ended, err = u.RowsAffected()
			}
			return err
		}}); err != nil {
			return err
		}
		if ended > 0 {
			d.o.Log.Info().Str("taskId", r.ID).Str("owner", r.Owner).Str("tool", r.Tool).Msg("task recovered: its runnel is gone")
		}
	}
	return nil
}

// remains is a task that was cut off: its result is the end of its output, and that it was cut off.
func (d *database) remains(ctx context.Context, number int64, message string) *Task {
	var end sql.NullInt64
	_ = d.read.QueryRowContext(ctx, "SELECT max(stop) FROM log WHERE task = ?", number).Scan(&end) // what can be read is shown
	log := partials.Stored(&keeping{db: d, task: number}, end.Int64)
	result := &mcp.CallToolResult{IsError: true, Content: remains(ctx, log)}
	gone := mcp.Text(message)
	result.Content = append(result.Content, gone)
	t := &Task{Outcome: &Outcome{Result: result}, Segments: partials.NewSegments(log)}
	t.Segments.Finish(partials.Ending{Rest: []mcp.ContentBlock{gone}, IsError: true})
	return t
}
