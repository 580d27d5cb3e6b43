package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"runnel/tasks"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"
)

// Options of a State.
type Options struct {
	Dir      string       // made with mode 0700 if it is not there
	MaxState int64        // bytes of the database; 0 = 4 GiB
	Limits   tasks.Limits // of each owner, over all processes
	Calls    bool         // finds calls without a handle that run, too: for people, never for clients
	Log      zerolog.Logger

	Now func() time.Time // nil = time.Now
}

// State is a tasks.State in a directory. What it has stored survives the process; several processes may use the
// directory at once. It opens with the first use, so that a process that only answers a probe takes nothing.
type State struct {
	o       Options
	cursors cursors

	mu     sync.Mutex
	db     *database // nil until the first use
	seen   time.Time // when the database file was last seen in its place
	closed bool
}

// database is an open state.
type database struct {
	o     Options
	file  os.FileInfo // of the database
	lease *lease
	read  *sql.DB // for reading only, several connections
	w     *writer
	sweep *sweeper

	mu   sync.Mutex
	live map[string]*keeping // tasks of this process that have not ended

	doubted bool           // the lease was away: others may have ended tasks of this process
	damaged map[int64]bool // tasks whose damage was told
}

const (
	defaultMaxState = 4 << 30
	// busyTimeout is how long a write waits for another process: far longer than any transaction takes.
	busyTimeout = 10 * time.Second
	readers     = 4   // connections that read
	rowBytes    = 512 // about what a task takes up, beside its output and its result
	// cacheKiB of pages are kept by each connection, which take half as much again. Twice as many buy nothing: what is read again is
	// in the system's memory, too.
	cacheKiB     = 1024
	databaseFile = "runnel.db"
	leaseDir     = "alive"
	// seenInterval is the least time between two looks whether the database file is in its place.
	seenInterval = time.Second
)

// New returns a store in o.Dir. It touches nothing yet.
func New(o Options) *State {
	if o.MaxState <= 0 {
		o.MaxState = defaultMaxState
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &State{o: o, cursors: newCursors()}
}

// Dir is where the state is.
func (s *State) Dir() string { return s.o.Dir }

// Exists reports whether a state is there already, which may have to be recovered. Where that cannot be seen it may be: Open
// tells why.
func (s *State) Exists() bool {
	_, err := os.Stat(filepath.Join(s.o.Dir, databaseFile))
	return !errors.Is(err, fs.ErrNotExist)
}

// Open opens the state if that has not been done, and recovers what dead processes left. After an error it
// may be called again, as every other method does by itself.
func (s *State) Open() error {
	_, err := s.open()
	return err
}

func (s *State) open() (*database, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, errors.New("the state is closed")
	case s.db != nil:
		return s.db, nil
	}
	db, err := openDatabase(s.o)
	if err != nil {
		return nil, tasks.Trouble{Err: fmt.Errorf("opening the state in %s: %w", s.o.Dir, explain(err))} // whatever it is, somebody has to do something about it
	}
	s.db, s.seen = db, time.Now()
	return db, nil
}

// openToPut is open for what is told as stored. It fails with ErrRemoved when the database file is not in its place any more.
func (s *State) openToPut() (*database, error) {
	db, err := s.open()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.seen) < seenInterval {
		return db, nil
	}
	file, err := os.Stat(filepath.Join(s.o.Dir, databaseFile))
	if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(file, db.file) {
		return nil, fmt.Errorf("%w: %s is not the file that it was; start runnel again, which makes a new one", tasks.ErrRemoved, filepath.Join(s.o.Dir, databaseFile))
	}
	s.seen = time.Now()
	return db, nil
}

// Close writes what is not written yet and lets go of the directory.
func (s *State) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.db == nil {
		return nil
	}
	db := s.db
	s.db = nil
	return db.close()
}

func openDatabase(o Options) (_ *database, err error) {
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, err
	}
	if err := checkAccess(o.Dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(o.Dir, leaseDir), 0o700); err != nil {
		return nil, err
	}
	// SQLite gives the files beside it (-wal, -shm) the mode of this one.
	file := filepath.Join(o.Dir, databaseFile)
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	_ = f.Close()
	if err != nil {
		return nil, err
	}

	// One process at a time makes or migrates a state: changing to WAL does not wait for others by itself.
	lock, err := os.OpenFile(filepath.Join(o.Dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	if err := lockFor(lock, busyTimeout); err != nil {
		return nil, err
	}

	db := &database{o: o, file: info, live: map[string]*keeping{}, damaged: map[int64]bool{}}
	defer func() {
		if err != nil {
			_ = db.close()
		}
	}()
	if db.w, err = openWriter(file, o); err != nil {
		return nil, err
	}
	if db.read, err = sql.Open("sqlite", dsn(file, "query_only(1)")); err != nil {
		return nil, err
	}
	db.read.SetMaxOpenConns(readers)
	if db.lease, err = takeLease(filepath.Join(o.Dir, leaseDir)); err != nil {
		return nil, err
	}
	// Before anything is looked up: what a dead process left neither works nor counts.
	if err = db.recoverAll(context.Background()); err != nil {
		return nil, err
	}
	db.sweep = startSweeper(db)
	return db, nil
}

// lockFor locks a file, and gives up after a while.
func lockFor(f *os.File, most time.Duration) error {
	const poll = 10 * time.Millisecond // flock has no timeout
	for deadline := time.Now().Add(most); ; time.Sleep(poll) {
		switch err := flock(f, unix.LOCK_EX); {
		case err == nil:
			return nil
		case !errors.Is(err, unix.EWOULDBLOCK):
			return fmt.Errorf("locking %s: %w", f.Name(), err)
		case time.Now().After(deadline):
			return fmt.Errorf("locking %s: another runnel has held it for %v", f.Name(), most)
		}
	}
}

// dsn names a database file and what holds for every connection.
func dsn(file string, pragmas ...string) string {
	q := url.Values{"_pragma": append([]string{
		fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds()),
		fmt.Sprintf("cache_size(-%d)", cacheKiB),
	}, pragmas...)}
	return (&url.URL{Scheme: "file", OmitHost: true, Path: file, RawQuery: q.Encode()}).String()
}

func (d *database) close() (err error) {
	if d.sweep != nil {
		d.sweep.close()
	}
	if d.read != nil {
		_ = d.read.Close()
	}
	if d.w != nil {
		err = d.w.close()
	}
	if d.lease != nil {
		d.lease.release()
	}
	return err
}
