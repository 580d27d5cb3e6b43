package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"runnel/internal/system"
	"runnel/partials"
	"runnel/tasks"
)

// database is an open state.
type database struct {
	o     Options
	lease *lease
	read  *sql.DB // for reading only, several connections
	w     *writer

	absent absences // leases of others

	stopSweeper context.CancelFunc
	sweeper     sync.WaitGroup

	mu   sync.Mutex
	live map[string]*backing // tasks of this process that have not ended

	damaged map[int64]bool // tasks whose damage was logged

	prepared sync.Map // from a query to its *sql.Stmt
}

// backing is one task's output in the database: a partials.Backing. It only reads if the task has ended or
// another process runs it.
type backing struct {
	db   *database
	task int64 // its number
	id   string

	// These are not set if it only reads.
	owner    string
	log      *partials.Log
	segments *partials.Segments
	hidden   atomic.Bool // a client does not know its id (put.go)

	// Owned by the writer's goroutine.
	written, pending extent
	// All stored output has numbers, so that it has the same ones in another process and after kill -9.
	numbers bool
}

// extent says how much of a log is stored: of a long one, the head and the tail.
type extent struct {
	kept int64 // bytes
	end  int64

	segments int   // how many have numbers
	last     int64 // where the last of them ends
}

// query reads. It keeps prepared statements, since parsing takes three times as long as looking up a task,
// and there are few queries. ctx does not end a query: that would take two goroutines, a fifth of the time of
// a tasks/get.
func (d *database) query(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	s, ok := d.prepared.Load(query)
	if !ok {
		fresh, err := d.read.Prepare(query)
		if err != nil {
			return nil, err
		}
		// A second statement for the query is closed with the database.
		s, _ = d.prepared.LoadOrStore(query, fresh)
	}
	return s.(*sql.Stmt).QueryContext(context.WithoutCancel(ctx), args...)
}

// each calls f with every row of a query, until ctx ends.
func (d *database) each(ctx context.Context, f func(scan func(...any) error) error, query string,
	args ...any) error {
	rows, err := d.query(ctx, query, args...)
	if err != nil {
		return explain(err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := f(rows.Scan); err != nil {
			return explain(err)
		}
	}
	return explain(rows.Err())
}

// column reads the only column of a query's rows.
func column[T any](rows *sql.Rows, err error) (list []T, _ error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var value T
		if err := rows.Scan(&value); err != nil {
			return nil, err
		}
		list = append(list, value)
	}
	return list, rows.Err()
}

// tell logs damage once for each task.
func (d *database) tell(number int64, id, why string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.damaged[number] {
		d.damaged[number] = true
		d.o.Log.Error().Str("taskId", id).Int64("task", number).Str("damage", why).
			Msg("the state is damaged: a task cannot be read")
	}
}

func (d *database) forget(id string) {
	d.mu.Lock()
	delete(d.live, id)
	d.mu.Unlock()
}

// row is a task as it is stored.
type row struct {
	tasks.Task
	number int64
	keeper string // "" once the task has ended
	asked  bool   // a cancel was asked for; recover sets it
	end    int64  // where the log ends
	ending *partials.Ending
	damage string // what is wrong with the row; "" = nothing
}

// taskColumns are the columns that scanTask reads.
const taskColumns = "number, id, owner, tool, client, status, message, created, updated, ttl, merge, " +
	"work IS NOT NULL, keeper, expires < 0 AND keeper IS NOT NULL, coalesce(length(outcome), 0) > 0"

// scanTask reads taskColumns, and more if the query has more.
func scanTask(scan func(...any) error, more ...any) (r row, err error) {
	var created, updated int64
	var keeper sql.NullString
	var stored bool
	err = scan(append([]any{&r.number, &r.ID, &r.Owner, &r.Tool, &r.Client, &r.Status, &r.StatusMessage,
		&created, &updated, &r.TTL, &r.Merge, &r.Detached, &keeper, &r.Hidden, &stored}, more...)...)
	r.CreatedAt = time.Unix(0, created)
	r.UpdatedAt = time.Unix(0, updated)
	r.keeper = keeper.String
	if err == nil {
		r.check(stored)
	}
	return r, err
}

// A row may be damaged even if SQLite finds it sound: a bit has flipped, or the file was edited. So each
// row is checked here, where it is read. A damaged task has failed, and says why; damaged output counts as no
// longer kept.

// check fails the task if its row is damaged. stored: it has an outcome.
func (r *row) check(stored bool) {
	if err := r.CheckStored(r.keeper != "", stored); err != nil {
		r.fail(err)
	}
}

// fail makes the task of a damaged row a failed one.
func (r *row) fail(why error) {
	if r.damage == "" {
		r.damage = why.Error()
		r.keeper = ""
		r.ending = r.FailDamaged(why)
	}
}

// decode decodes the stored outcome and variables of a task.
func (r *row) decode(outcome, variables []byte) {
	o, ending, err := tasks.DecodeOutcome(outcome)
	switch {
	case err != nil:
		r.fail(err)
	case r.damage == "":
		r.Outcome, r.ending = o, ending
	}
	if r.Variables, err = tasks.DecodeVariables(variables); err != nil {
		r.fail(err)
	}
}

// explain turns an error of SQLite or the system into one that says what the user can do. It does so only
// once for an error.
func explain(err error) error {
	switch {
	case err == nil || errors.As(err, new(tasks.Trouble)):
		return err
	case errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.EROFS) ||
		errors.Is(err, fs.ErrNotExist): // no directory can be made there, as in /proc
		return tasks.Trouble{Err: fmt.Errorf("%w; --state names another directory, or memory", err)}
	case errors.Is(err, errFull):
		return tasks.Trouble{Err: fmt.Errorf("%w: wait for tasks to end or cancel some, or raise the "+
			"limit (state.maxState)", err)}
	case errors.Is(err, errPinned):
		return tasks.Trouble{Err: fmt.Errorf("%w: let it go on (kill -CONT) or end it; lsof of that file "+
			"names it", err)}
	case errors.Is(err, syscall.ENOSPC) || system.IsFull(err):
		return tasks.Trouble{Err: fmt.Errorf("%w; %s", err, freeDisk)}
	}
	switch primaryCode(err) {
	case sqlite3.SQLITE_FULL:
		return tasks.Trouble{Err: fmt.Errorf("the disk is full: %s: %w", freeDisk, err)}
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return tasks.Trouble{Err: fmt.Errorf("%w for %v: %w", tasks.ErrBusy, busyTimeout, err)}
	case sqlite3.SQLITE_IOERR:
		return tasks.Trouble{Err: fmt.Errorf("the disk could not be read or written; if it is full, %s: %w",
			freeDisk, err)}
	case sqlite3.SQLITE_CANTOPEN:
		return tasks.Trouble{Err: fmt.Errorf("%s cannot be opened: are too many files open (ulimit -n), "+
			"or is its path longer than 500 bytes? then name another directory with --state: %w", databaseFile, err)}
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return tasks.Trouble{Err: fmt.Errorf("%s is damaged or no state of runnel; move it away or use "+
			"another directory (--state): %w", databaseFile, err)}
	}
	return err
}

// freeDisk says what to do about a full disk: new tasks need minRoom. Deleting tasks needs room, too, for the
// write-ahead log.
const freeDisk = "free some of the disk, 4 MiB at least (from 1 MiB on, \"runnel tasks prune\" can free " +
	"more), or name a directory on another one with --state"

// errFull refuses to make the state larger than its limit. Deleting tasks that have ended may help.
var errFull = errors.New("the state has reached its limit, and all tasks that are left in it still run")

// errPinned reports that a reader keeps the write-ahead log from being emptied.
var errPinned = fmt.Errorf("%w: it has stopped while it read", tasks.ErrBusy)

// isDiskFull reports whether the disk is full. Deleting tasks does not help, since the state is within its
// limit.
func isDiskFull(err error) bool { return primaryCode(err) == sqlite3.SQLITE_FULL }

// isBusy reports whether another process keeps this one from writing: it has held the state locked for all of
// busyTimeout, or stopped while it read.
func isBusy(err error) bool {
	return primaryCode(err) == sqlite3.SQLITE_BUSY || errors.Is(err, tasks.ErrBusy)
}

// primaryCode returns SQLite's code of an error without the detail in its upper bits; SQLITE_OK if the error
// is not SQLite's.
func primaryCode(err error) int {
	e, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return sqlite3.SQLITE_OK
	}
	return e.Code() & 0xff
}
