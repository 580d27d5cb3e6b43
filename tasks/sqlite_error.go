package tasks

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// explained is an error in words of explain.
type explained struct{ error }

func (e explained) Unwrap() error { return e.error }

// explain words what SQLite and the system report for somebody who has to do something about it, once, however often it is
// asked to.
func explain(err error) error {
	switch {
	case err == nil || errors.As(err, new(explained)):
		return err
	case errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.EROFS):
		return explained{fmt.Errorf("%w; --state names another directory, or memory", err)}
	case errors.Is(err, errFull):
		return explained{fmt.Errorf("%w: wait for tasks to end or cancel some, or raise the limit (state.maxState)", err)}
	case errors.Is(err, errPinned):
		return explained{fmt.Errorf("%w: let it go on (kill -CONT) or end it; lsof of that file names it", err)}
	case errors.Is(err, unix.ENOSPC):
		return explained{fmt.Errorf("%w; free some of the disk, or name a directory on another one with --state", err)}
	}
	switch primaryCode(err) {
	case sqlite3.SQLITE_FULL:
		return explained{fmt.Errorf("the disk is full: free some of the disk, or name a directory on another one with --state: %w", err)}
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return explained{fmt.Errorf("another process has held the state locked for %v: %w", busyTimeout, err)}
	case sqlite3.SQLITE_IOERR:
		return explained{fmt.Errorf("the disk could not be read or written (is it full? then free some of it): %w", err)}
	case sqlite3.SQLITE_CANTOPEN:
		return explained{fmt.Errorf("%s cannot be opened: are too many files open (ulimit -n), or is its path longer than 500 bytes? then name another directory with --state: %w", databaseFile, err)}
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return explained{fmt.Errorf("%s is damaged or no state of runnel; move it away or use another directory (--state): %w", databaseFile, err)}
	}
	return err
}

// errFull refuses to make the state larger than its limit. To delete tasks that have ended may mend it.
var errFull = errors.New("the state is as large as it may be, and what is left in it has not ended")

// isDiskFull reports whether the disk has no room. To delete tasks is no way to make some: it is not the state that has filled it.
func isDiskFull(err error) bool { return primaryCode(err) == sqlite3.SQLITE_FULL }

// isBusy reports whether another process keeps this one from writing: it has held the state locked for all of busyTimeout, or stopped
// while it read.
func isBusy(err error) bool {
	return primaryCode(err) == sqlite3.SQLITE_BUSY || errors.Is(err, errPinned)
}

// primaryCode is SQLite's code of an error without the detail in its upper bits, SQLITE_OK if it is none of SQLite's.
func primaryCode(err error) int {
	e, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return sqlite3.SQLITE_OK
	}
	return e.Code() & 0xff
}
