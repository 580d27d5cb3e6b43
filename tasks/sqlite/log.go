package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"runnel/partials"
	"runnel/tasks"
)

// Due implements partials.Backing.
func (k *backing) Due(full bool) { k.db.w.flush(k.job(), full) }

// job returns the job that writes due output.
func (k *backing) job() job {
	return job{do: k.write, done: k.done, answer: func(err error) {
		switch {
		case err != nil && k.hidden.Load():
			k.log.Unback() // the call goes on without
		case isBusy(err) && k.log.Closed(): // it comes with the task's end
		case isBusy(err) && k.db.w.flush(k.job(), false):
			// The output waits in memory and, when that is full, the tool waits, as for a slow disk.
		case err != nil:
			k.log.Fail(err)
		}
	}}
}

// write stores the output that the state does not have yet.
func (k *backing) write(tx *transaction) error {
	limit, size := k.log.Limit(), k.log.ExtentSize()
	for {
		s, ok := k.log.Unsaved(size)
		if !ok {
			break
		}
		own, err := tx.change("INSERT INTO log (task, start, stop, marks, data) SELECT ?1, ?, ?, ?, ? "+
			"WHERE EXISTS (SELECT 1 FROM task WHERE number = ?1 AND keeper = ?)",
			k.task, s.Start, s.End(), s.Marks, s.Data, k.db.lease.name)
		if err != nil {
			return err
		}
		if own == 0 {
			return tasks.ErrFenced
		}
		k.pending.kept += s.End() - s.Start
		k.pending.end = s.End()
	}
	if err := k.number(tx); err != nil {
		return err
	}
	return k.cut(tx, limit)
}

// number stores the numbers that were given to segments.
func (k *backing) number(tx *transaction) error {
	e := &k.pending
	if k.numbers {
		k.segments.Number(e.end)
	}
	given := k.segments.Given(e.segments, e.end)
	if len(given) == 0 {
		return nil
	}
	_, err := tx.exec("INSERT INTO segment (task, first, ends) VALUES (?, ?, ?)", k.task, e.segments+1,
		partials.EncodeEnds(e.last, given))
	e.segments, e.last = e.segments+len(given), given[len(given)-1]
	return err
}

// cut deletes the middle of a log that is longer than its limit, down to three quarters of the limit, so that
// it need not do so for each extent.
func (k *backing) cut(tx *transaction, limit int64) error {
	e := &k.pending
	if limit <= 0 || e.kept <= limit {
		return nil
	}
	head, tail := limit/8*3, e.end-limit/8*3
	const middle = "FROM log WHERE task = ? AND start >= ? AND stop <= ?"
	bytes, err := tx.count("SELECT coalesce(sum(stop - start), 0) "+middle, k.task, head, tail)
	if err == nil {
		_, err = tx.exec("DELETE "+middle, k.task, head, tail)
	}
	e.kept -= int64(bytes)
	return err
}

// done is called when the transaction of write was committed or rolled back.
func (k *backing) done(committed bool) {
	if committed {
		k.written = k.pending
		k.log.MarkSaved()
	} else {
		k.pending = k.written
		k.log.Retry()
	}
}

// Load implements partials.Backing.
func (k *backing) Load(ctx context.Context, pos int64, limit int) ([]partials.Extent, error) {
	rows, err := k.db.query(ctx,
		`SELECT start, stop, marks, data FROM log WHERE task = ?1 AND stop > ?2 AND start >=
		coalesce((SELECT max(start) FROM log WHERE task = ?1 AND start <= ?2), 0) ORDER BY start`,
		k.task, pos)
	if err != nil {
		return nil, explain(err)
	}
	defer rows.Close()
	var list []partials.Extent
	for size, last := 0, int64(0); size < limit && rows.Next(); {
		var s partials.Extent
		var stop int64
		// The driver has copied the blobs from SQLite: without RawBytes, Scan would copy them once more.
		if err := rows.Scan(&s.Start, &stop, (*sql.RawBytes)(&s.Marks),
			(*sql.RawBytes)(&s.Data)); err != nil {
			return nil, explain(err)
		}
		if err := checkExtent(&s, stop, last); err != nil {
			k.db.tell(k.task, k.id, "its output: "+err.Error())
			continue // it counts as no longer kept
		}
		last = s.End()
		if n := len(list); n > 0 && list[n-1].End() != s.Start {
			break // a gap: the rest is read by itself
		}
		list = append(list, s)
		size += len(s.Data)
	}
	return list, explain(rows.Err())
}

// checkExtent returns an error if a row of output after position last is damaged.
func checkExtent(s *partials.Extent, stop, last int64) error {
	if s.Start < last || stop != s.End() {
		return fmt.Errorf("a row from %d to %d of %d bytes after %d", s.Start, stop, len(s.Data), last)
	}
	return s.Check()
}

// loadSegments reads the numbers that were given after number n, whose segment ends at position last, up to
// position end. A row that goes beyond end has been stored since end was read. The next call, which begins
// with a whole row, reads it.
func (k *backing) loadSegments(ctx context.Context, n int, last, end int64) ([]int64, error) {
	numbers, more := partials.Numbers{After: n, Last: last, End: end}, true
	err := k.db.each(ctx, func(scan func(...any) error) error {
		var first int64
		var stored []byte
		err := scan(&first, &stored)
		if err == nil && more {
			more, err = numbers.Add(first, stored)
		}
		return err
	}, "SELECT first, ends FROM segment WHERE task = ? AND first > ? ORDER BY first", k.task, n)
	if err != nil {
		return nil, err
	}
	return numbers.Ends()
}

// segmentsOf reads all numbers of a row's task, which has failed if they are damaged.
func (k *backing) segmentsOf(ctx context.Context, r *row) ([]int64, error) {
	ends, err := k.loadSegments(ctx, 0, 0, r.end)
	if errors.Is(err, partials.ErrEnds) {
		r.fail(err)
		k.db.tell(r.number, r.ID, r.damage)
		return nil, nil
	}
	return ends, err
}
