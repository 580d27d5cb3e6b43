package tasks

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"runnel/partials"
	"runnel/rpc"
	"runnel/rpc/mcp"
)

// SQLiteOptions of a SQLite store.
type SQLiteOptions struct {
	Dir      string // made with mode 0700 if it is not there
	MaxState int64  // bytes of the database; 0 = 4 GiB
	Limits   Limits // of each owner, over all processes
	Log      zerolog.Logger
}

// SQLite is a Store in a directory. What it has stored survives the process; several processes may use the
// directory at once. It opens with the first use, so that a process that only answers a probe takes nothing.
//
// Goroutines, from the first use to Close: one that writes (sqlite_writer.go), one that sweeps (sqlite_sweep.go).
type SQLite struct {
	o       SQLiteOptions
	cursors cursors

	mu     sync.Mutex
	db     *database // nil until the first use
	seen   time.Time // when the database file was last seen in its place
	closed bool
}

// database is an open state.
type database struct {
	o     SQLiteOptions
	file  os.FileInfo // of the database
	lease *lease
	read  *sql.DB // for reading only, several connections
	w     *writer
	sweep *sweeper

	mu   sync.Mutex
	live map[string]*keeping // tasks of this process that have not ended
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

// ErrRemoved refuses to store in a file that nobody will find: what has been told as stored would be gone with the process.
var ErrRemoved = errors.New("the state was removed or replaced while runnel used it")

// NewSQLite returns a store in o.Dir. It touches nothing yet.
func NewSQLite(o SQLiteOptions) *SQLite {
	if o.MaxState <= 0 {
		o.MaxState = defaultMaxState
	}
	return &SQLite{o: o, cursors: newCursors()}
}

// Dir is where the state is.
func (s *SQLite) Dir() string { return s.o.Dir }

// Exists reports whether a state is there already, which may have to be recovered. Where that cannot be seen it may be: Open
// tells why.
func (s *SQLite) Exists() bool {
	_, err := os.Stat(filepath.Join(s.o.Dir, databaseFile))
	return !errors.Is(err, fs.ErrNotExist)
}

// Open opens the state if that has not been done, and recovers what dead processes left. After an error it
// may be called again, as every other method does by itself.
func (s *SQLite) Open() error {
	_, err := s.open()
	return err
}

func (s *SQLite) open() (*database, error) {
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
		return nil, fmt.Errorf("opening the state in %s: %w", s.o.Dir, explain(err))
	}
	s.db, s.seen = db, time.Now()
	return db, nil
}

// openToPut is open for what is told as stored. It fails with ErrRemoved when the database file is not in its place any more.
func (s *SQLite) openToPut() (*database, error) {
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
		return nil, fmt.Errorf("%w: %s is not the file that it was; start runnel again, which makes a new one", ErrRemoved, filepath.Join(s.o.Dir, databaseFile))
	}
	s.seen = time.Now()
	return db, nil
}

// Close writes what is not written yet and lets go of the directory.
func (s *SQLite) Close() error {
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

func openDatabase(o SQLiteOptions) (_ *database, err error) {
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

	db := &database{o: o, file: info, live: map[string]*keeping{}}
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

// Put implements Store. A task that this process puts for the first time is its own to run: until a terminal
// status is put, its log is written to the store as it grows.
func (s *SQLite) Put(_ context.Context, t Task) error {
	d, err := s.openToPut()
	if err != nil {
		return err
	}
	d.mu.Lock()
	k := d.live[t.ID]
	d.mu.Unlock()
	if k != nil && k.hidden.Load() {
		if err := d.reveal(k, t); err != nil || !t.Status.Terminal() {
			return err
		}
	}
	if k == nil {
		working := t
		if t.Status.Terminal() {
			// A task whose first state is its last: its log must be there before its end can be seen.
			working.Status, working.Outcome = mcp.TaskWorking, nil
		}
		if k, err = d.insert(working, false); err != nil || !t.Status.Terminal() {
			return err
		}
	}
	return d.update(k, t)
}

// insert stores a new task. One that is hidden is found by nobody, counts against no limit, and need not outlive a loss of power.
func (d *database) insert(t Task, hidden bool) (*keeping, error) {
	k := &keeping{db: d, log: t.Log, segments: t.Segments, numbers: t.Merge}
	k.hidden.Store(hidden)
	expires := expires(&t)
	if hidden {
		expires = hiddenExpires
	}
	var refused error
	err := d.w.do(job{durable: !hidden, do: func(tx *transaction) (err error) {
		if !hidden {
			if refused, err = d.admit(tx, t.Owner); err != nil || refused != nil {
				return err
			}
		}
		r, err := tx.exec(`INSERT INTO task (id, owner, tool, status, message, created, updated, ttl, expires, merge, variables, keeper)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			t.ID, t.Owner, t.Tool, t.Status, t.StatusMessage, t.CreatedAt.UnixNano(), t.UpdatedAt.UnixNano(),
			int64(t.TTL), expires, t.Merge, []byte(t.Variables), d.lease.name)
		tx.bytes += rowBytes + int64(len(t.Variables))
		if err == nil {
			if !hidden {
				tx.live[t.Owner]++
			}
			k.task, err = r.LastInsertId()
		}
		return err
	}})
	if err == nil {
		err = refused
	}
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	d.live[t.ID] = k
	d.mu.Unlock()
	if t.Log != nil {
		t.Log.Back(k)
	}
	return k, nil
}

// admit refuses a new task of an owner who has too many, counting those of all processes in the transaction
// that stores it.
func (d *database) admit(tx *transaction, owner string) (refused, err error) {
	if limit := d.o.Limits.MaxLive; limit > 0 {
		n, counted := tx.live[owner]
		if !counted {
			if n, err = tx.count("SELECT count(*) FROM task INDEXED BY task_keeper WHERE keeper IS NOT NULL AND owner = ? AND expires >= 0", owner); err != nil {
				return nil, err
			}
			tx.live[owner] = n
		}
		if n >= limit {
			return &refusal{RefusedLive, tooManyLive(limit)}, nil
		}
	}
	if limit := d.o.Limits.MaxStartsPerMinute; limit > 0 {
		now := time.Now() // behind it are tasks from before the clock was set back
		n, err := tx.count("SELECT count(*) FROM (SELECT created FROM task WHERE owner = ? AND expires >= 0 ORDER BY number DESC LIMIT ?) WHERE created > ? AND created <= ?",
			owner, limit, now.Add(-time.Minute).UnixNano(), now.UnixNano())
		if err != nil || n >= limit {
			return &refusal{RefusedStarts, tooManyStarts(limit)}, err
		}
	}
	return nil, nil
}

// update stores a later state. All that the log holds is stored with a terminal one, in the same transaction.
func (d *database) update(k *keeping, t Task) error {
	outcome, err := encodeOutcome(&t)
	if err != nil {
		return err
	}
	keeper := sql.NullString{String: d.lease.name, Valid: !t.Status.Terminal()}
	var found int64
	store := job{durable: true, do: func(tx *transaction) error {
		k.numbers = k.numbers || t.Merge
		if t.Status.Terminal() || t.Merge { // Run.Merge may come when some has been stored
			if err := k.write(tx); err != nil {
				return err
			}
		}
		r, err := tx.exec("UPDATE task SET status = ?, message = ?, updated = ?, outcome = ?, merge = ?, keeper = ? WHERE number = ? AND keeper = ?",
			t.Status, t.StatusMessage, t.UpdatedAt.UnixNano(), outcome, t.Merge, keeper, k.task, d.lease.name)
		tx.bytes += int64(len(outcome))
		if err == nil {
			found, err = r.RowsAffected()
		}
		if _, counted := tx.live[t.Owner]; counted && t.Status.Terminal() {
			tx.live[t.Owner] -= int(found)
		}
		return err
	}, committed: k.committed, undone: k.undone}
	if err := d.w.do(store); err != nil {
		return err
	}
	if t.Status.Terminal() {
		d.forget(t.ID)
	}
	if found == 0 {
		return ErrNotFound // it has expired and was deleted
	}
	return nil
}

func (d *database) forget(id string) {
	d.mu.Lock()
	delete(d.live, id)
	d.mu.Unlock()
}

func expires(t *Task) int64 {
	created := t.CreatedAt.UnixNano()
	if int64(t.TTL) > math.MaxInt64-created {
		return math.MaxInt64
	}
	return created + int64(t.TTL)
}

const taskColumns = "number, id, owner, tool, status, message, created, updated, ttl, merge, work IS NOT NULL, keeper"

// row is a task as it stands in the database.
type row struct {
	Task
	number int64
	keeper string // "" once the task has ended
	end    int64  // of the log
	ending *partials.Ending
}

func scanTask(scan func(...any) error, more ...any) (r row, err error) {
	var created, updated int64
	var keeper sql.NullString
	err = scan(append([]any{&r.number, &r.ID, &r.Owner, &r.Tool, &r.Status, &r.StatusMessage, &created, &updated, &r.TTL, &r.Merge, &r.Detached, &keeper}, more...)...)
	r.CreatedAt, r.UpdatedAt, r.keeper = time.Unix(0, created), time.Unix(0, updated), keeper.String
	return r, err
}

// Get implements Store. The log of a task that another process runs is what has been stored of it by now.
func (s *SQLite) Get(ctx context.Context, owner, id string) (Task, error) {
	d, err := s.open()
	if err != nil {
		return Task{}, err
	}
	r, err := d.current(ctx, owner, id)
	if err != nil {
		return Task{}, err
	}
	return d.stored(ctx, &r)
}

// current is a task as it stands in the database, when it was seen to that its keeper lives.
func (d *database) current(ctx context.Context, owner, id string) (row, error) {
	r, err := d.row(ctx, owner, id)
	if err == nil && d.orphaned(r.keeper) {
		if err = d.recover(r.keeper); err == nil {
			r, err = d.row(ctx, owner, id)
		}
	}
	return r, err
}

func (d *database) row(ctx context.Context, owner, id string) (row, error) {
	var outcome, variables []byte
	var end sql.NullInt64
	r, err := scanTask(d.read.QueryRowContext(ctx, "SELECT "+taskColumns+`, outcome, variables, (SELECT stop FROM log WHERE task = number ORDER BY start DESC LIMIT 1)
		FROM task WHERE id = ? AND owner = ? AND expires > ?`, id, owner, time.Now().UnixNano()).Scan, &outcome, &variables, &end)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return row{}, ErrNotFound
	case err != nil:
		return row{}, explain(err)
	}
	r.Variables, r.end = variables, end.Int64
	r.Outcome, r.ending, err = decodeOutcome(outcome)
	return r, err
}

// stored is the task of a row with what is stored of its output.
func (d *database) stored(ctx context.Context, r *row) (Task, error) {
	k := &keeping{db: d, task: r.number}
	ends, err := k.loadSegments(ctx, 0, 0, r.end)
	r.Log = partials.Stored(k, r.end)
	r.Segments = partials.RestoreSegments(r.Log, ends, r.ending)
	if r.keeper != "" {
		r.Segments.Follow()
	}
	return r.Task, err
}

// List implements Store. A cursor spells the number of the last task shown.
func (s *SQLite) List(ctx context.Context, owner, cursor string, n int) ([]Task, string, error) {
	var after int64
	if cursor != "" {
		var err error
		if after, err = s.cursors.open(cursor); err != nil {
			return nil, "", err
		}
	}
	d, err := s.open()
	if err != nil {
		return nil, "", err
	}
	page, err := d.list(ctx, owner, after, n+1)
	for i := range page {
		if d.orphaned(page[i].keeper) {
			if err = d.recover(page[i].keeper); err != nil {
				return nil, "", err
			}
			page, err = d.list(ctx, owner, after, n+1)
			break
		}
	}
	if err != nil {
		return nil, "", err
	}
	next := ""
	if len(page) > n {
		page = page[:n]
		next = s.cursors.seal(page[n-1].number)
	}
	list := make([]Task, len(page))
	for i := range page {
		list[i] = page[i].Task
	}
	return list, next, nil
}

func (d *database) list(ctx context.Context, owner string, after int64, n int) ([]row, error) {
	var page []row
	err := d.each(ctx, func(scan func(...any) error) error {
		r, err := scanTask(scan)
		page = append(page, r)
		return err
	}, "SELECT "+taskColumns+" FROM task WHERE owner = ? AND number > ? AND expires > ? ORDER BY number LIMIT ?",
		owner, after, time.Now().UnixNano(), n)
	return page, err
}

// Delete implements Store.
func (s *SQLite) Delete(_ context.Context, id string) error {
	d, err := s.open()
	if err != nil {
		return err
	}
	d.mu.Lock()
	k := d.live[id]
	delete(d.live, id)
	d.mu.Unlock()
	if k != nil && k.log != nil {
		k.log.Unback() // nothing more of it is written
	}
	// To delete a long log takes a while: that is the sweeper's work.
	defer d.sweep.hurry()
	return d.w.do(job{do: func(tx *transaction) error {
		_, err := tx.exec("UPDATE task SET expires = 0, keeper = NULL WHERE id = ?", id)
		return err
	}})
}

// storedOutcome is an Outcome as it stands in the database.
type storedOutcome struct {
	Result *mcp.CallToolResult `json:"result,omitempty"`
	Error  *rpc.Error          `json:"error,omitempty"`
	// Rest is what the result has beyond the output (partials.Ending).
	Rest    []json.RawMessage `json:"rest,omitempty"`
	IsError bool              `json:"isError,omitempty"`
}

func encodeOutcome(t *Task) ([]byte, error) {
	if t.Outcome == nil {
		return nil, nil
	}
	s := storedOutcome{Result: t.Outcome.Result, Error: t.Outcome.Err}
	if t.Segments != nil {
		if ending := t.Segments.Ending(); ending != nil {
			s.IsError, s.Rest = ending.IsError, ending.Rest
		}
	}
	encoded, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encoding the outcome: %w", err)
	}
	return encoded, nil
}

func decodeOutcome(encoded []byte) (*Outcome, *partials.Ending, error) {
	if len(encoded) == 0 {
		return nil, nil, nil
	}
	var s storedOutcome
	if err := json.Unmarshal(encoded, &s); err != nil {
		return nil, nil, fmt.Errorf("reading a stored outcome: %w", err)
	}
	return &Outcome{Result: s.Result, Err: s.Error}, &partials.Ending{Rest: s.Rest, IsError: s.IsError}, nil
}

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
	case errors.Is(err, unix.ENOSPC):
		return explained{fmt.Errorf("%w; free some of the disk, or name a directory on another one with --state", err)}
	}
	switch primaryCode(err) {
	case sqlite3.SQLITE_FULL:
		return explained{fmt.Errorf("no space left: free some of the disk, or raise the limit of the state (state.maxState): %w", err)}
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return explained{fmt.Errorf("another process has held the state locked for %v: %w", busyTimeout, err)}
	case sqlite3.SQLITE_IOERR:
		return explained{fmt.Errorf("the disk could not be read or written (is it full? then free some of it): %w", err)}
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return explained{fmt.Errorf("%s is damaged or no state of runnel; move it away or use another directory (--state): %w", databaseFile, err)}
	}
	return err
}

// isFull reports whether an error may be mended by deleting something.
func isFull(err error) bool { return primaryCode(err) == sqlite3.SQLITE_FULL }

// isBusy reports whether another process has held the state locked for all of busyTimeout.
func isBusy(err error) bool { return primaryCode(err) == sqlite3.SQLITE_BUSY }

// primaryCode is SQLite's code of an error without the detail in its upper bits, SQLITE_OK if it is none of SQLite's.
func primaryCode(err error) int {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return sqlite3.SQLITE_OK
	}
	return e.Code() & 0xff
}

// Ask implements Shared.
func (s *SQLite) Ask(_ context.Context, owner, id string) error {
	d, err := s.open()
	if err != nil {
		return err
	}
	return d.w.do(job{do: func(tx *transaction) error {
		_, err := tx.exec("UPDATE task SET asked = 1 WHERE id = ? AND owner = ? AND keeper IS NOT NULL", id, owner)
		return err
	}})
}

// Asked implements Shared.
func (s *SQLite) Asked(ctx context.Context) (ids []string, err error) {
	d, err := s.open()
	if err != nil {
		return nil, err
	}
	err = d.each(ctx, func(scan func(...any) error) error {
		var id string
		err := scan(&id)
		ids = append(ids, id)
		return err
	}, "SELECT id FROM task WHERE keeper = ? AND asked = 1", d.lease.name)
	return ids, err
}
