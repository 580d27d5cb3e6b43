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
	"golang.org/x/sys/unix"
)

// lease says that a process lives: a file of its own that it holds locked. The kernel lets the lock go when the
// process ends, however it ends, so nothing has to be renewed and no process id, which another process may get
// after a restart, has to be trusted.
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
		case !errors.Is(err, unix.EWOULDBLOCK):
			return nil, err
		}
	}
}

// lockNew makes a lease's file and locks it. It fails with EWOULDBLOCK if a sweeper, which sees it before it is locked, has taken
// it for a dead process's: then it has locked or removed it.
func lockNew(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("taking a lease: %w", err)
	}
	err = flock(f, unix.LOCK_EX)
	if err == nil && !present(f) {
		err = unix.EWOULDBLOCK
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("taking a lease: locking %s: %w", path, err)
	}
	return f, nil
}

// retake takes the lease again, under its name, if somebody has removed its file, and reports whether that was so: who has looked for
// it meanwhile takes this process for gone.
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

// touch makes the file a new one for those who remove old ones.
func (l *lease) touch() {
	now := time.Now()
	_ = os.Chtimes(l.path, now, now)
}

// release ends the lease: what is still kept under its name is a dead process's from now on.
func (l *lease) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = os.Remove(l.path)
	_ = l.file.Close()
}

// leaseHeld reports whether the process that took a lease lives. In doubt it does.
func leaseHeld(dir, name string) bool {
	if filepath.Base(name) != name {
		return false // the name of no lease: the state is damaged
	}
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_RDWR, 0)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	defer f.Close()
	// Shared, so that two who look at once do not take each other for the holder.
	return flock(f, unix.LOCK_SH) != nil
}

// dropDeadLeases removes the files of processes that are gone.
func dropDeadLeases(dir string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		f, err := os.OpenFile(filepath.Join(dir, e.Name()), os.O_RDWR, 0)
		if err != nil {
			continue
		}
		if flock(f, unix.LOCK_SH) == nil { // not exclusive: who looks at the same time would take that for its holder
			_ = os.Remove(f.Name())
		}
		_ = f.Close()
	}
}

func flock(f *os.File, how int) error {
	for {
		err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
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
