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

	"github.com/rs/zerolog"

	"runnel/internal/system"
	"runnel/tasks"
)

// State is a tasks.State in a directory. Stored tasks survive the process, and several processes may use the
// directory at once. The database is opened at the first use, so a process that only answers a probe never
// opens it.
type State struct {
	o       Options
	cursors cursors

	mu     sync.Mutex
	db     *database // nil until the first use
	about  string    // see Describe
	closed bool
}

// New returns a state in o.Dir. It touches nothing yet.
func New(o Options) *State {
	if o.MaxState <= 0 {
		o.MaxState = tasks.DefaultMaxState
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Recovered == nil {
		o.Recovered = func(*tasks.Task) {}
	}
	return &State{o: o, cursors: newCursors()}
}

// Dir is where the state is.
func (s *State) Dir() string { return s.o.Dir }

// Exists reports whether the directory already holds a state, which may need recovery. It also reports true
// if it cannot find out; then Recover says why.
func (s *State) Exists() bool {
	_, err := os.Stat(filepath.Join(s.o.Dir, databaseFile))
	return !errors.Is(err, fs.ErrNotExist)
}

// Recover opens the database if it is not open yet, and recovers the tasks of dead processes. It may be
// called again after an error, as every other method does by itself.
func (s *State) Recover() error {
	_, err := s.open()
	return err
}

// Open implements tasks.State.
func (s *State) Open(owner string) tasks.Store { return &store{s, owner} }

// store is the tasks of an owner.
type store struct {
	*State
	owner string
}

var _ tasks.Shared = (*store)(nil)

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
		// A person has to look at it, whatever it is.
		return nil, tasks.Trouble{Err: fmt.Errorf("opening the state in %s: %w", s.o.Dir, explain(err))}
	}
	s.db = db
	if s.about != "" {
		db.lease.describe(s.about)
	}
	return db, nil
}

// Describe makes others read text about this process in Described, while it has the state open. It is called
// once.
func (s *State) Describe(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.about = text
	if s.db != nil {
		s.db.lease.describe(text)
	}
}

// Described returns the texts of the processes that have the state open.
func (s *State) Described() (texts []string) {
	dir := filepath.Join(s.o.Dir, leaseDir)
	leases, _ := os.ReadDir(dir) // without it, no process has it open
	for _, e := range leases {
		if text := aboutOf(dir, e.Name()); text != "" {
			texts = append(texts, text)
		}
	}
	return texts
}

// Close writes everything that is not written yet, and releases the directory.
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

	db := &database{o: o, live: map[string]*backing{}, damaged: map[int64]bool{}}
	defer func() {
		if err != nil {
			_ = db.close()
		}
	}()
	if db.w, err = openWriter(file, info, o); err != nil {
		return nil, err
	}
	if db.read, err = sql.Open("sqlite", dsn(file, "query_only(1)")); err != nil {
		return nil, err
	}
	db.read.SetMaxOpenConns(readers)
	if db.lease, err = takeLease(filepath.Join(o.Dir, leaseDir)); err != nil {
		return nil, err
	}
	// This comes before anything is looked up, since tasks of dead processes neither work nor count.
	if err = db.recoverAll(context.Background()); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	db.stopSweeper = stop
	db.sweeper.Go(func() { db.sweepAll(ctx) })
	return db, nil
}

func (d *database) close() (err error) {
	if d.stopSweeper != nil {
		d.stopSweeper()
		d.sweeper.Wait()
	}
	kept := d.lease != nil && d.read != nil && d.keeps(context.Background(), d.lease.name)
	if d.read != nil {
		_ = d.read.Close()
	}
	if d.w != nil {
		err = d.w.close()
	}
	if d.lease != nil {
		d.lease.release(kept)
	}
	return err
}

// lockFor locks a file, and gives up after a while.
func lockFor(f *os.File, most time.Duration) error {
	const poll = 10 * time.Millisecond // flock has no timeout
	for deadline := time.Now().Add(most); ; time.Sleep(poll) {
		switch err := system.Lock(f); {
		case err == nil:
			return nil
		case !errors.Is(err, system.ErrLocked):
			return fmt.Errorf("locking %s: %w", f.Name(), err)
		case time.Now().After(deadline):
			return fmt.Errorf("locking %s: another runnel has held it for %v", f.Name(), most)
		}
	}
}

// stateFiles returns the names of a state's directory and files, the directory first.
var stateFiles = []string{".", leaseDir, "lock", databaseFile, databaseFile + "-wal", databaseFile + "-shm"}

// checkAccess refuses a state that other users may change, since they could make runnel tell its clients
// anything. Missing files pass. The directories above may belong to anybody, as /tmp does: a state that
// somebody else puts there belongs to them, and is refused.
func checkAccess(dir string) error {
	for _, name := range stateFiles {
		path := filepath.Join(dir, name)
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return err
		}
		const elsewhere = "or name another directory with --state"
		if owner, foreign := system.IsForeign(path, info); foreign {
			return fmt.Errorf("%s belongs to another user (%s): use runnel as that user, take it over "+
				"with %s, %s", path, owner, system.TakeOver(dir), elsewhere)
		}
		if rights, writable := system.WritableByOthers(path, info); writable {
			return fmt.Errorf("others may write %s (%s): take their rights with %s, %s", path, rights,
				system.TakeRights(dir), elsewhere)
		}
	}
	return nil
}

// Options of a State.
type Options struct {
	Dir      string       // made with mode 0700 if it is missing
	MaxState int64        // bytes of the database; 0 = tasks.DefaultMaxState
	Limits   tasks.Limits // for each owner, over all processes
	// Calls has calls without a handle found, too, running ones and the history: for people, never for
	// clients.
	Calls   bool
	History tasks.History
	Log     zerolog.Logger
	// Recovered, if set, gets each task that this process has ended because its keeper is gone. It must not
	// block.
	Recovered func(t *tasks.Task)

	Now func() time.Time // nil = time.Now
}

const (
	// busyTimeout is how long a write waits for another process: far longer than any transaction takes.
	busyTimeout = 10 * time.Second
	readers     = 4 // connections that read
	// cacheKiB is the size of each connection's page cache, which takes half as much again. Twice the size
	// gains nothing, since the system caches the file, too.
	cacheKiB     = 1024
	databaseFile = "runnel.db"
	leaseDir     = "alive"
)

// visible is the condition for a task that has not expired at a time (see Task.Expired) and, unless wanted,
// has a handle.
func (o *Options) visible() string {
	if o.Calls && o.History.Calls > 0 { // what has expired is soon in the history
		return "(expires > 0 OR -expires > ? OR keeper IS NOT NULL)"
	}
	if o.Calls {
		return "(abs(expires) > ? OR keeper IS NOT NULL)"
	}
	return "(expires > ? OR keeper IS NOT NULL AND expires >= 0)"
}

// dsn returns the name of a database file, with the settings of every connection.
func dsn(file string, pragmas ...string) string {
	q := url.Values{"_pragma": append([]string{
		fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds()),
		fmt.Sprintf("cache_size(-%d)", cacheKiB),
	}, pragmas...)}
	return (&url.URL{Scheme: "file", OmitHost: true, Path: file, RawQuery: q.Encode()}).String()
}
