package httpserver

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"runnel/internal/system"
)

// The id of a session is enough to open it again (revive.go). Sessions that must not be opened again are noted here: those that their
// client has ended, and those with more than their id holds, such as subscriptions. The notes outlive the process in a file, shared by all
// processes with one state, with one line each: when the session was opened, and a hash. They are bounded: of the oldest notes only the
// time is kept, and no session opened before that time is opened again.

const (
	// maxEnded is how many sessions are noted individually.
	maxEnded = 10_000
	// older replaces the hash in a line about all sessions that were opened up to a time.
	older = "*"
	// lockPatience is how long another process may lock the file.
	lockPatience = time.Second
	// clockSlack is how far the clock may have gone back since a session was opened.
	clockSlack = time.Minute
)

// ended are these notes. Its lock is held while the file is read or written.
type ended struct {
	file string // "" = none

	mu    sync.Mutex
	seen  os.FileInfo // of the file when it was last read; nil: there was none
	until int64       // all sessions opened until then, in Unix seconds, count as noted
	notes map[string]int64
	order []string // oldest note first
}

// newEnded reads the notes of earlier processes. If they cannot be read, all sessions so far count as noted.
func newEnded(file string) (*ended, error) {
	e := &ended{file: file, notes: map[string]int64{}}
	_, err := e.read()
	if err != nil {
		e.until = time.Now().Unix()
	}
	return e, err
}

// read reads what other processes have noted since, and reports whether older notes had to be dropped. mu is held.
func (e *ended) read() (crowded bool, err error) {
	if e.file == "" {
		return false, nil
	}
	info, err := os.Stat(e.file)
	switch {
	case os.IsNotExist(err):
		return false, nil
	case err != nil:
		return false, err
	case e.seen != nil && unchanged(info, e.seen):
		return false, nil
	}
	text, err := os.ReadFile(e.file)
	if err != nil {
		return false, err
	}
	for line := range strings.Lines(string(text)) {
		at, hash, _ := strings.Cut(strings.TrimSpace(line), " ")
		opened, err := strconv.ParseInt(at, 10, 64)
		if err == nil && (hash == older || len(hash) == hashLen) { // otherwise it was not written completely
			crowded = e.add(hash, opened) || crowded
		}
	}
	e.seen = info
	return crowded, nil
}

// hashLen is the length of a hash.
const hashLen = 32

// hash identifies a session in the notes, but is useless to whoever reads them.
func (k sessionKey) hash() string {
	sum := sha256.Sum256([]byte(k.owner + "\x00" + k.id))
	return hex.EncodeToString(sum[:16])
}

// has reports whether a session must not be opened again.
func (e *ended) has(k sessionKey) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, _ = e.read() // if it cannot be read, the notes so far count
	_, noted := e.notes[k.hash()]
	opened := openedAt(k.id)
	return noted || opened <= e.until || opened > time.Now().Add(clockSlack).Unix()
}

// note notes a session, once.
func (e *ended) note(k sessionKey) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	hash, opened := k.hash(), openedAt(k.id)
	if _, noted := e.notes[hash]; noted || opened <= e.until {
		return nil
	}
	crowded := e.add(hash, opened)
	if e.file == "" {
		return nil
	}
	return e.locked(func() error {
		more, err := e.read()
		if crowded || more {
			return errors.Join(err, e.rewrite())
		}
		return errors.Join(err, e.write(fmt.Sprintln(opened, hash)))
	})
}

// locked calls f while no other process writes the file. mu is held.
func (e *ended) locked(f func() error) error {
	if err := os.MkdirAll(filepath.Dir(e.file), 0o700); err != nil {
		return err
	}
	lock, err := system.OpenLockable(e.file+".lock", os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	const poll = 2 * time.Millisecond // a file lock has no timeout
	for deadline := time.Now().Add(lockPatience); ; time.Sleep(poll) {
		if err = system.Lock(lock); !errors.Is(err, system.ErrLocked) || time.Now().After(deadline) {
			break
		}
	}
	if err == nil {
		err = f()
	}
	return errors.Join(err, lock.Close())
}

// add adds a note, and reports whether older ones had to be dropped. mu is held.
func (e *ended) add(hash string, opened int64) (crowded bool) {
	opened = min(opened, time.Now().Unix()) // the client could claim any time
	if _, noted := e.notes[hash]; noted || opened <= e.until {
		return false
	}
	if hash == older {
		e.until = opened
		return false
	}
	e.notes[hash] = opened
	e.order = append(e.order, hash)
	if len(e.order) <= maxEnded {
		return false
	}
	for _, old := range e.order[:maxEnded/2] {
		e.until = max(e.until, e.notes[old])
		delete(e.notes, old)
	}
	e.order = slices.Clone(e.order[maxEnded/2:])
	return true
}

// rewrite writes all notes again. mu is held, and the file locked.
func (e *ended) rewrite() error {
	text := fmt.Appendln(nil, e.until, older)
	for _, hash := range e.order {
		text = fmt.Appendln(text, e.notes[hash], hash)
	}
	next := e.file + ".new"
	if err := os.WriteFile(next, text, 0o600); err != nil {
		return err
	}
	if err := os.Rename(next, e.file); err != nil {
		return err
	}
	return e.wrote()
}

// write adds a line to the file. mu is held, and the file locked.
func (e *ended) write(line string) error {
	f, err := os.OpenFile(e.file, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString("\n" + line) // the line before may not have been written completely
	return errors.Join(err, f.Close(), e.wrote())
}

// wrote notes that the file's present content is known. mu is held, and the file locked.
func (e *ended) wrote() (err error) {
	e.seen, err = os.Stat(e.file)
	return err
}

// stamp returns the beginning of the id of a session that can be opened again: when it was opened.
func stamp() string { return strconv.FormatInt(time.Now().Unix(), 36) + "-" }

// openedAt returns when a session was opened, in Unix seconds; 0 if its id does not say so.
func openedAt(id string) int64 {
	text, _, ok := strings.Cut(id, "-")
	opened, err := strconv.ParseInt(text, 36, 64)
	if !ok || err != nil || opened < 0 {
		return 0
	}
	return opened
}
