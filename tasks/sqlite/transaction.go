package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"runnel/tasks"
)

// transaction is the connection that writes, in one transaction after the other.
type transaction struct {
	conn     *sql.Conn
	prepared map[string]*sql.Stmt
	durable  bool
	// How many of an owner's tasks have not ended, as far as this transaction has counted them.
	live map[string]int

	mostPages int // the limit of the state, in pages of the database
	pages     int // when the transaction began

	file       string      // the database file
	info       os.FileInfo // that of it when it was opened
	wal        string      // the write-ahead log
	longestWAL int64       // bytes
}

// inPlace fails with ErrRemoved if the database file was removed or replaced.
func (tx *transaction) inPlace() error {
	info, err := os.Stat(tx.file)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(info, tx.info) {
		return fmt.Errorf("%w: %s is not the file that it was; start runnel again, which makes a new one",
			tasks.ErrRemoved, tx.file)
	}
	return nil
}

// begin starts a transaction. When a durable one is committed, it and all before it are on the disk; any
// other survives the end of the process, but not a loss of power.
func (tx *transaction) begin(durable bool) (err error) {
	if durable {
		if err := tx.inPlace(); err != nil {
			return err
		}
	}
	if err := tx.boundWAL(); err != nil {
		return err
	}
	if durable != tx.durable {
		mode := "NORMAL"
		if durable {
			mode = "FULL"
		}
		if _, err := tx.exec("PRAGMA synchronous = " + mode); err != nil {
			return err
		}
		tx.durable = durable
	}
	tx.live = map[string]int{}
	if _, err := tx.exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	tx.pages, err = tx.count("PRAGMA page_count")
	return err
}

// commit ends a transaction, unless it has made the state larger than its limit. SQLite's own limit
// (max_page_count) is not used, because its error is the same as for a full disk, where deleting tasks does
// not help.
func (tx *transaction) commit() error {
	pages, err := tx.count("PRAGMA page_count")
	if err == nil && pages > tx.mostPages && pages > tx.pages {
		err = errFull
	}
	if err == nil {
		_, err = tx.exec("COMMIT")
	}
	return err
}

func (tx *transaction) exec(query string, args ...any) (sql.Result, error) {
	s, err := tx.prepare(query)
	if err != nil {
		return nil, err
	}
	return s.ExecContext(context.Background(), args...)
}

// change is exec, and returns how many rows it has changed.
func (tx *transaction) change(query string, args ...any) (int64, error) {
	r, err := tx.exec(query, args...)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

func (tx *transaction) query(query string, args ...any) (*sql.Rows, error) {
	s, err := tx.prepare(query)
	if err != nil {
		return nil, err
	}
	return s.QueryContext(context.Background(), args...)
}

// count returns the number that a query returns.
func (tx *transaction) count(query string, args ...any) (n int, err error) {
	err = tx.one(&n, query, args...)
	return n, err
}

// one reads the one value that a query returns, or fails with sql.ErrNoRows.
func (tx *transaction) one(value any, query string, args ...any) error {
	s, err := tx.prepare(query)
	if err != nil {
		return err
	}
	return s.QueryRowContext(context.Background(), args...).Scan(value)
}

// prepare keeps the statements that it prepares, since there are few queries.
func (tx *transaction) prepare(query string) (*sql.Stmt, error) {
	s := tx.prepared[query]
	if s == nil {
		var err error
		if s, err = tx.conn.PrepareContext(context.Background(), query); err != nil {
			return nil, err
		}
		tx.prepared[query] = s
	}
	return s, nil
}

// These are conditions for drop, with the order of deletion. A task that must not be found any more expires
// at 0.
const (
	expired = "expires BETWEEN -?1 AND ?1 AND keeper IS NULL ORDER BY expires LIMIT 512"
	// These delete few more than need be. Those that a task which goes on has begun are endedNeeded.
	endedFirst  = "keeper IS NULL AND NOT " + needed + " ORDER BY updated LIMIT 16"
	endedNeeded = "keeper IS NULL AND " + needed + " ORDER BY updated LIMIT 16"

	needed = `CASE WHEN instr(variables, '"` + tasks.AboveNote +
		`"') > 0 AND json_valid(CAST(variables AS TEXT)) THEN
		EXISTS (SELECT 1 FROM task AS above WHERE above.keeper IS NOT NULL AND above.owner = task.owner AND
			above.id = json_extract(CAST(task.variables AS TEXT), '$."` + tasks.AboveNote + `"')) ELSE 0 END`
)

// sliceRows bounds one deleting transaction: 32 MiB, some ten milliseconds in which no other process can
// write.
const sliceRows = 512

// drop deletes some of the tasks that match a condition, with at most sliceRows rows of output. If a task has
// more rows, only a part is deleted; the task is not found any more, and the next calls delete the rest.
func (tx *transaction) drop(which string, args ...any) (n int, err error) {
	numbers, err := column[int64](tx.query("SELECT number FROM task WHERE "+which, args...))
	if err != nil {
		return 0, err
	}
	for room := int64(sliceRows); n < len(numbers) && room > 0; n++ {
		rows, err := tx.change("DELETE FROM log WHERE rowid IN (SELECT rowid FROM log WHERE task = ? "+
			"LIMIT ?)", numbers[n], room)
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

func (tx *transaction) close() {
	for _, s := range tx.prepared {
		_ = s.Close()
	}
	_ = tx.conn.Close()
}

// SQLite writes to a second file, the write-ahead log, and now and then moves its content into the database,
// but not past the point that the slowest reader has reached. It starts the file anew only when nobody reads
// in it. So a reader that was stopped in the middle (Ctrl-Z, a debugger, a frozen container) lets the file
// grow without end. Therefore nothing is written while the file is too long: output and the ends of tasks
// wait, as for a slow disk, and new tasks are refused.

const (
	walShare = 4         // the part of a state's limit, a quarter, that the write-ahead log may be as long as
	leastWAL = 16 << 20  // several times what is moved at once, so that writers do not wait needlessly
	mostWAL  = 256 << 20 // and never longer
	// walPatience is how long a write waits for others if the file is too long. Readers take milliseconds; a
	// process that empties the file takes as long as the disk.
	walPatience = 2 * time.Second
	walPause    = 5 * time.Millisecond // between two tries to empty it
)

// longestWAL returns how long the write-ahead log of a state may be, in bytes. A transaction that has begun
// is written anyway.
func longestWAL(maxState int64) int64 { return min(max(maxState/walShare, leastWAL), mostWAL) }

// boundWAL empties the write-ahead log if it is too long, or fails with errPinned. SQLite waits for its
// readers, but not for another process that is moving it into the database, which empties it as well.
func (tx *transaction) boundWAL() error {
	for deadline := time.Now().Add(walPatience); ; time.Sleep(walPause) {
		size := tx.walSize()
		if size <= tx.longestWAL {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%w, and %s cannot be emptied, which is %d MiB long", errPinned,
				tx.wal, size>>20)
		}
		if err := tx.emptyWAL(); err != nil {
			return err
		}
	}
}

// emptyWAL moves the write-ahead log into the database, as far as readers allow within walPatience.
func (tx *transaction) emptyWAL() (err error) {
	if err := tx.waitFor(walPatience); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tx.waitFor(busyTimeout)) }()
	var busy, pages, moved int
	return tx.conn.QueryRowContext(context.Background(), "PRAGMA wal_checkpoint(TRUNCATE)").
		Scan(&busy, &pages, &moved)
}

// waitFor sets how long a query waits for other processes.
func (tx *transaction) waitFor(d time.Duration) error {
	_, err := tx.conn.ExecContext(context.Background(),
		fmt.Sprintf("PRAGMA busy_timeout = %d", d.Milliseconds()))
	return err
}

func (tx *transaction) walSize() int64 {
	info, err := os.Stat(tx.wal)
	if err != nil {
		return 0 // it is not there while nothing is written
	}
	return info.Size()
}
