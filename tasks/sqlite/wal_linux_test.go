package sqlite

import (
	"database/sql"
	"os"
	"path/filepath"
	"testing"
	"time"

	"runnel/tasks/statetest"

	"golang.org/x/sys/unix"
)

// A write that finds the write-ahead log too long waits for another process that is emptying it: nobody has
// stopped.
func TestSQLiteWaitsForWhoEmptiesTheWAL(t *testing.T) {
	t.Parallel()
	const maxState = 64 << 20
	s := openStore(t, Options{MaxState: maxState})
	statetest.Put(t, s, statetest.Working("a"))
	file := filepath.Join(s.Dir(), databaseFile)
	other, err := sql.Open("sqlite", dsn(file, "wal_autocheckpoint(0)"))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := other.Exec("CREATE TABLE filler AS SELECT zeroblob(?)", 2*longestWAL(maxState)); err != nil {
		t.Fatal(err)
	}
	shm, err := os.OpenFile(file+"-shm", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer shm.Close()
	// WAL_CKPT_LOCK (sqlite.org/walformat.html, "WAL Locks").
	checkpointing := unix.Flock_t{Type: unix.F_WRLCK, Start: 121, Len: 1}
	if err := unix.FcntlFlock(shm.Fd(), unix.F_OFD_SETLK, &checkpointing); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(200*time.Millisecond, func() { shm.Close() })
	statetest.Put(t, s, statetest.Working("b"))
	if info, err := os.Stat(file + "-wal"); err != nil || info.Size() > longestWAL(maxState) {
		t.Errorf("the write-ahead log: %d bytes, %v", info.Size(), err)
	}
}
