package sqlite

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"runnel/internal/system"
)

// lease shows that a process lives: it is a file of its own that the process keeps locked. The kernel
// releases the lock when the process ends, for whatever reason. So nothing has to be renewed, and process
// ids, which may be reused after a restart, need not be trusted.
type lease struct {
	name string // UUID_PID_BEGAN: the tasks of the process have it, too, and a cleaner does not remove those
	path string

	mu    sync.Mutex
	file  *os.File
	about string // what the file says about the process
}

// takeLease makes and locks a new file in dir.
func takeLease(dir string) (*lease, error) {
	for {
		name := fmt.Sprintf("%s_%d_%s", uuid.NewString(), os.Getpid(), began(os.Getpid()))
		path := filepath.Join(dir, name)
		switch f, err := lockNew(path); {
		case err == nil:
			return &lease{name: name, path: path, file: f}, nil
		case !errors.Is(err, system.ErrLocked):
			return nil, err
		}
	}
}

// lockNew makes a lease's file and locks it. It fails with ErrLocked if a sweeper saw the file before it was
// locked, took it for that of a dead process, and locked or removed it.
func lockNew(path string) (*os.File, error) {
	f, err := system.OpenLockable(path, os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("taking a lease: %w", err)
	}
	err = system.Lock(f)
	if err == nil && !present(f, path) {
		err = system.ErrLocked
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("taking a lease: locking %s: %w", path, err)
	}
	return f, nil
}

// retake makes the lease's file again if it was removed, and reports whether that was so. The new file is
// locked before it has the name: others never see it as that of a dead process.
func (l *lease) retake() (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if present(l.file, l.path) {
		return false, nil
	}
	dir := filepath.Dir(l.path)
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return false, err // the whole state is gone
	}
	again, err := takeLease(dir)
	if err != nil {
		return false, err
	}
	again.describe(l.about)
	if err := os.Rename(again.path, l.path); err != nil {
		again.release(false)
		return false, err
	}
	_ = l.file.Close()
	l.file = again.file
	return true, nil
}

// describe makes the file say something about the process.
func (l *lease) describe(about string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.about = about
	_, _ = l.file.WriteAt([]byte(about), aboutStart) // the lock is what counts
}

// aboutStart is where a lease's text begins: Windows lets others not read the first byte, which is locked.
const aboutStart = 1

// maxAbout is how much of a lease's text is read, in bytes.
const maxAbout = 8 << 10

// aboutOf returns what a lease's file says about its process; "" if it says nothing, or the process is dead.
func aboutOf(dir, name string) string {
	if !leaseHeld(dir, name) {
		return ""
	}
	f, err := system.OpenLockable(filepath.Join(dir, name), 0, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	text, _ := io.ReadAll(io.NewSectionReader(f, aboutStart, maxAbout))
	return string(text)
}

// touch makes the file look new to programs that remove old files.
func (l *lease) touch() {
	now := time.Now()
	_ = os.Chtimes(l.path, now, now)
}

// release ends the lease. Tasks that are still kept under its name belong to a dead process from now on: the
// file stays and says so.
func (l *lease) release(kept bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !kept {
		_ = os.Remove(l.path)
	}
	_ = l.file.Close()
}

// holder says who holds a lease.
type holder uint8

const (
	alive holder = iota // a process, or that is unknown
	dead                // none: the file is not locked
	// missing says nothing: the process may have ended long ago, or it lives and a cleaner has removed its
	// file.
	missing
)

// holderOf looks at a lease's file. If its process is dead, it calls then while that is certain.
func holderOf(dir, name string, then func()) holder {
	if filepath.Base(name) != name {
		return dead // the name of no lease: the state is damaged
	}
	f, err := system.OpenLockable(filepath.Join(dir, name), 0, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return missing
	} else if err != nil {
		return alive
	}
	defer f.Close()
	// The lock is shared: two that look at the same time would take each other for the holder.
	if system.LockShared(f) != nil {
		return alive
	}
	then()
	return dead
}

// dropDeadLeases removes the files of processes that are dead and keep no task: until their tasks are ended,
// the files say that they are.
func dropDeadLeases(dir string, keeps func(name string) bool) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		holderOf(dir, e.Name(), func() {
			if !keeps(e.Name()) {
				_ = os.Remove(filepath.Join(dir, e.Name()))
			}
		})
	}
}

// leaseHeld reports whether the process that took a lease lives. If that is unknown, it reports true.
func leaseHeld(dir, name string) bool { return holderOf(dir, name, func() {}) == alive }

// absences are the leases whose files are missing. A process makes its file again at its next Heed, so only a
// file that stays missing says that its process has ended.
type absences struct {
	mu sync.Mutex
	of map[string]absence // by the lease's name
}

type absence struct{ first, last time.Time }

const (
	// absentFor is how long a file must be missing before its process is looked for: many times heedInterval,
	// since a machine may be busy.
	absentFor = time.Minute
	// absentLook is the longest time between two looks that count. After a longer one this process, and
	// perhaps all others, have stood still.
	absentLook = sweepInterval * 3 / 2
)

// see notes what the look at a lease has found, and reports whether its process has ended.
func (a *absences) see(name string, found holder, now time.Time) (gone bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if found != missing {
		delete(a.of, name)
		return found == dead
	}
	since, seen := a.of[name]
	if !seen || now.Sub(since.last) > absentLook {
		since.first = now
	}
	since.last = now
	if a.of == nil {
		a.of = map[string]absence{}
	}
	a.of[name] = since
	return now.Sub(since.first) >= absentFor && !runs(name)
}

// runs reports whether the process that took a lease runs on this system. It may stand still for longer than
// absentFor, as with SIGSTOP.
func runs(name string) bool {
	parts := strings.Split(name, "_")
	if len(parts) != 3 || parts[2] == "" {
		return false
	}
	pid, err := strconv.Atoi(parts[1])
	return err == nil && began(pid) == parts[2]
}

// began returns when a process began, which no other process with its id did. It is "" if the process has
// ended, and where there is no /proc: there a missing file alone decides.
func began(pid int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	// proc(5): pid (comm) state ... starttime; comm may hold anything.
	f := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(f) < 20 || f[0] == "Z" || f[0] == "X" {
		return ""
	}
	return f[19]
}

// present reports whether the file stands at path.
func present(f *os.File, path string) bool {
	open, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(path)
	return err == nil && os.SameFile(open, named)
}
