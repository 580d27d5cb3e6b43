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

// The id of a session is enough to open it again (revive.go). Sessions that must not be opened again are
// noted here: those that their
// client has ended, and those with more than their id holds, such as subscriptions. The notes outlive the
// process in a file, which all processes with one state share, one line each: when the session was opened, a
// hash of its owner, and a hash of the session. They are bounded: when there are too many, the owner with the
// most loses the older half, and no session that this owner opened until then is opened again.

const (
	// maxEnded is how many sessions are noted individually.
	maxEnded = 10_000
	// maxEndedFile limits the file of the notes, in bytes: far more than maxEnded lines, which are rewritten
	// before they are twice as many.
	maxEndedFile = 16 << 20
	// maxUntil is how many owners may have had notes dropped. Beyond that, the earliest of these times counts
	// for everybody.
	maxUntil = 1000
	// older replaces the session's hash in a line about all sessions that an owner opened up to a time.
	older = "*"
	// everybody replaces the owner's hash in a line about all owners.
	everybody = "*"
	// lockPatience is how long another process may lock the file. It does so for a moment, but a busy machine
	// may stop it then.
	lockPatience = 10 * time.Second
	// clockSlack is how far the clock may have gone back since a session was opened.
	clockSlack = time.Minute
)

// ended holds these notes. mu is not held while the file is read or written: a request that looks must not
// wait for one that notes.
type ended struct {
	file     string // "" = none
	patience time.Duration
	writing  sync.Mutex // held while this process has the file locked; taken before mu

	mu      sync.Mutex
	seen    os.FileInfo // the file's info from when it was last read; nil if it did not exist
	notes   map[string]bool
	order   []note           // oldest first
	until   map[string]int64 // by owner: all sessions opened until then, in Unix seconds, count as noted
	crowded bool             // notes were dropped that are still in the file
}

// note says that a session has ended. Its hashes are useless to anyone who reads the file.
type note struct {
	opened      int64
	owner, hash string
}

// The lengths of the hashes.
const ownerLen, hashLen = 16, 32

func noteOf(k sessionKey) note {
	owner, session := sha256.Sum256([]byte(k.owner)), sha256.Sum256([]byte(k.owner+"\x00"+k.id))
	return note{openedAt(k.id), hex.EncodeToString(owner[:])[:ownerLen], hex.EncodeToString(session[:])[:hashLen]}
}

// readNote reads a line of the file. It reports false for one that was not written completely.
func readNote(line string) (n note, ok bool) {
	fields := strings.Fields(line)
	if len(fields) != 3 {
		return n, false
	}
	opened, err := strconv.ParseInt(fields[0], 10, 64)
	n = note{opened, fields[1], fields[2]}
	return n, err == nil && (n.hash == older || len(n.hash) == hashLen)
}

// newEnded reads the notes of earlier processes. If they cannot be read, all sessions so far count as noted.
func newEnded(file string) (*ended, error) {
	e := &ended{file: file, patience: lockPatience, notes: map[string]bool{}, until: map[string]int64{}}
	err := e.read()
	if err != nil {
		e.until[everybody] = time.Now().Unix()
	}
	return e, err
}

// read reads what other processes have noted since.
func (e *ended) read() error {
	if e.file == "" {
		return nil
	}
	info, err := os.Stat(e.file)
	switch {
	case os.IsNotExist(err):
		return nil
	case err != nil:
		return err
	}
	e.mu.Lock()
	known := e.seen != nil && unchanged(info, e.seen)
	e.mu.Unlock()
	if known {
		return nil
	}
	text, _, err := system.ReadRegular(e.file, maxEndedFile)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for line := range strings.Lines(string(text)) {
		if n, ok := readNote(line); ok {
			e.add(n)
		}
	}
	e.seen = info
	return nil
}

// has reports whether a session must not be opened again.
func (e *ended) has(k sessionKey) bool {
	_ = e.read() // if it cannot be read, the notes so far count
	n := noteOf(k)
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.noted(n) || n.opened > time.Now().Add(clockSlack).Unix()
}

// noted reports whether a note is there, or counts as there because later ones were dropped. mu is held.
func (e *ended) noted(n note) bool {
	return e.notes[n.hash] || n.opened <= max(e.until[n.owner], e.until[everybody])
}

// note notes a session, once.
func (e *ended) note(k sessionKey) error {
	n := noteOf(k)
	e.mu.Lock()
	added := e.add(n)
	e.mu.Unlock()
	if !added || e.file == "" {
		return nil
	}
	return e.locked(func() error {
		if err := e.read(); err != nil { // rewriting would lose the notes of other processes
			return errors.Join(err, e.append(n))
		}
		e.mu.Lock()
		crowded := e.crowded
		e.mu.Unlock()
		if crowded {
			return errors.Join(e.rewrite(), e.wrote())
		}
		return errors.Join(e.append(n), e.wrote())
	})
}

// locked calls f while nobody else writes the file. Only another process can lock it for too long: this one's
// notes wait for each other.
func (e *ended) locked(f func() error) error {
	e.writing.Lock()
	defer e.writing.Unlock()
	if err := os.MkdirAll(filepath.Dir(e.file), 0o700); err != nil {
		return err
	}
	lock, err := system.OpenLockable(e.file+".lock", os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	const poll = 2 * time.Millisecond // a file lock has no timeout
	for deadline := time.Now().Add(e.patience); ; time.Sleep(poll) {
		if err = system.Lock(lock); !errors.Is(err, system.ErrLocked) || time.Now().After(deadline) {
			break
		}
	}
	switch {
	case err == nil:
		err = f()
	case errors.Is(err, system.ErrLocked):
		err = fmt.Errorf("%s has been locked by another process for %v", e.file, e.patience)
	}
	return errors.Join(err, lock.Close())
}

// add adds a note, unless it is there already. mu is held.
func (e *ended) add(n note) (added bool) {
	n.opened = min(n.opened, time.Now().Unix()) // the client could claim any time
	switch {
	case e.noted(n):
		return false
	case n.hash == older:
		e.until[n.owner] = n.opened
		return true
	}
	e.notes[n.hash] = true
	e.order = append(e.order, n)
	if len(e.order) > maxEnded {
		e.drop()
	}
	return true
}

// drop drops the older half of the notes of the owner with the most, so that no owner loses sessions to
// another. mu is held.
func (e *ended) drop() {
	count, most := map[string]int{}, everybody
	for _, n := range e.order {
		if count[n.owner]++; count[n.owner] > count[most] {
			most = n.owner
		}
	}
	left := (count[most] + 1) / 2
	e.order = slices.DeleteFunc(e.order, func(n note) bool {
		if n.owner != most || left == 0 {
			return false
		}
		left--
		e.until[most] = max(e.until[most], n.opened)
		delete(e.notes, n.hash)
		return true
	})
	e.crowded = true
	if len(e.until) <= maxUntil {
		return
	}
	first := everybody
	for owner, until := range e.until {
		if owner != everybody && (first == everybody || until < e.until[first]) {
			first = owner
		}
	}
	e.until[everybody] = max(e.until[everybody], e.until[first])
	delete(e.until, first)
}

// rewrite writes all notes again. The file is locked.
func (e *ended) rewrite() error {
	var text []byte
	e.mu.Lock()
	for owner, until := range e.until {
		text = fmt.Appendln(text, until, owner, older)
	}
	for _, n := range e.order {
		text = fmt.Appendln(text, n.opened, n.owner, n.hash)
	}
	e.crowded = false
	e.mu.Unlock()
	next := e.file + ".new"
	err := os.WriteFile(next, text, 0o600)
	if err == nil {
		err = os.Rename(next, e.file)
	}
	if err != nil { // the next note tries again
		e.mu.Lock()
		e.crowded = true
		e.mu.Unlock()
	}
	return err
}

// append adds a line to the file, which is locked.
func (e *ended) append(n note) error {
	f, err := os.OpenFile(e.file, os.O_CREATE|os.O_WRONLY|os.O_APPEND|system.NoWait, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "\n%d %s %s\n", n.opened, n.owner, n.hash) // the line before may not have been written completely
	return errors.Join(err, f.Close())
}

// wrote notes that the file's present content is known, after read has read the rest of it. The file is
// locked.
func (e *ended) wrote() error {
	info, err := os.Stat(e.file)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.seen = info
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
