package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"runnel/internal/system"
	"runnel/tasks"
)

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
