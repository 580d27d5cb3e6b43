package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/google/uuid"

	"runnel/internal/system"
)

// lease shows that a process lives: it is a file of its own that the process keeps locked. The kernel releases the lock when the process
// ends, for whatever reason. So nothing has to be renewed, and process ids, which may be reused after a restart, need not be trusted.
type lease struct {
	name string
	path string

	mu   sync.Mutex
	file *os.File
}

// takeLease makes and locks a new file in dir.
func takeLease(dir string) (*lease, error) {
	for {
		name := uuid.NewString()
		path := filepath.Join(dir, name)
		switch f, err := lockNew(path); {
		case err == nil:
			return &lease{name: name, path: path, file: f}, nil
		case !errors.Is(err, system.ErrLocked):
			return nil, err
		}
	}
}

// lockNew makes a lease's file and locks it. It fails with ErrLocked if a sweeper saw the file before it was locked, took it for that of a
// dead process, and locked or removed it.
func lockNew(path string) (*os.File, error) {
	f, err := system.OpenLockable(path, os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("taking a lease: %w", err)
	}
	err = system.Lock(f)
	if err == nil && !present(f) {
		err = system.ErrLocked
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("taking a lease: locking %s: %w", path, err)
	}
	return f, nil
}

// retake makes the lease's file again if somebody has removed it, and reports whether that was so: a process that looked for it meanwhile
// takes this one for gone.
func (l *lease) retake() (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if present(l.file) {
		return false, nil
	}
	if err := os.Mkdir(filepath.Dir(l.path), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return false, err // the whole state is gone
	}
	f, err := lockNew(l.path)
	if err != nil {
		return false, err
	}
	_ = l.file.Close()
	l.file = f
	return true, nil
}

// touch makes the file look new to programs that remove old files.
func (l *lease) touch() {
	now := time.Now()
	_ = os.Chtimes(l.path, now, now)
}

// release ends the lease. Tasks that are still kept under its name belong to a dead process from now on.
func (l *lease) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = os.Remove(l.path)
	_ = l.file.Close()
}

// leaseHeld reports whether the process that took a lease lives. If that is unknown, it reports true.
func leaseHeld(dir, name string) bool {
	return filepath.Base(name) == name && !leaseGone(filepath.Join(dir, name), func() {}) // else the name of no lease: the state is damaged
}

// dropDeadLeases removes the files of processes that are gone.
func dropDeadLeases(dir string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		leaseGone(path, func() { _ = os.Remove(path) })
	}
}

// leaseGone reports whether nobody holds a lease's file, and calls then while that is certain.
func leaseGone(path string, then func()) bool {
	f, err := system.OpenLockable(path, 0, 0)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	defer f.Close()
	if system.LockShared(f) != nil { // not exclusive: two that look at once would take each other for the holder
		return false
	}
	then()
	return true
}

// present reports whether the file still stands under its name.
func present(f *os.File) bool {
	open, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(f.Name())
	return err == nil && os.SameFile(open, named)
}
