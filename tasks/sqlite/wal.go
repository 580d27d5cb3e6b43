package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"runnel/tasks"
)

// SQLite writes to a second file, the write-ahead log, and moves that into the database now and then: but no further than its slowest
// reader has come, and it begins the file anew only when nobody reads in it. A reader that has been stopped in the middle (Ctrl-Z, a
// debugger, a frozen container) lets it grow without end. So nothing is written while it is too long: output waits, as for
// a slow disk, and so do the ends of tasks; new ones are refused.

const (
	walShare = 4         // the part of a state's limit, a quarter, that the write-ahead log may be as long as
	leastWAL = 16 << 20  // several times what is moved at once, lest writers wait without need
	mostWAL  = 256 << 20 // and never longer
	// walPatience is how long a write that finds it too long waits for others: readers take milliseconds, a process that empties it
	// as long as the disk does.
	walPatience = 2 * time.Second
	walPause    = 5 * time.Millisecond // between two tries
)

// errPinned tells that a reader keeps the write-ahead log from being emptied.
var errPinned error = pinned{}

type pinned struct{}

func (pinned) Error() string { return "a process that reads the state has stopped in the middle" }

func (pinned) Is(target error) bool { return target == tasks.ErrBusy }

// longestWAL is how long the write-ahead log of a state may be, in bytes; a transaction that has begun is written all the same.
func longestWAL(maxState int64) int64 { return min(max(maxState/walShare, leastWAL), mostWAL) }

// boundWAL empties the write-ahead log if it is too long, or fails with errPinned.
func (tx *transaction) boundWAL() error {
	if tx.walSize() <= tx.longestWAL {
		return nil
	}
	patience := func(d time.Duration) error {
		_, err := tx.conn.ExecContext(context.Background(), fmt.Sprintf("PRAGMA busy_timeout = %d", d.Milliseconds()))
		return err
	}
	if err := patience(walPatience); err != nil {
		return err
	}
	err := tx.emptyWAL()
	return errors.Join(err, patience(busyTimeout))
}

// emptyWAL tries to empty the write-ahead log until it is short enough. SQLite itself does not wait for another process that is moving
// it into the database, which empties it as well.
func (tx *transaction) emptyWAL() error {
	for deadline := time.Now().Add(walPatience); ; time.Sleep(walPause) {
		var busy, pages, moved int
		if err := tx.conn.QueryRowContext(context.Background(), "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &pages, &moved); err != nil {
			return err
		}
		switch size := tx.walSize(); {
		case size <= tx.longestWAL:
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("%w, and %s cannot be emptied, which is %d MiB long", errPinned, tx.wal, size>>20)
		}
	}
}

func (tx *transaction) walSize() int64 {
	info, err := os.Stat(tx.wal)
	if err != nil {
		return 0 // it is not there while nothing is written
	}
	return info.Size()
}
