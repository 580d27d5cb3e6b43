package httpserver

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"runnel/internal/system"
)

// A session that was noted once as ended stays known as such, in any process, though not every note is kept.
func TestEndedIsBounded(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "state", "ended")
	e, err := newEnded(file)
	if err != nil {
		t.Fatal(err)
	}
	const n = maxEnded + 10
	began := time.Now().Unix() - n
	opened := func(i int) sessionKey {
		return sessionKey{"alice", fmt.Sprintf("%s-X.e30", strconv.FormatInt(began+int64(i), 36))}
	}
	for i := range n {
		if e.has(opened(i)) {
			t.Fatalf("%d is noted already", i)
		}
		if err := e.note(opened(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.note(opened(n - 1)); err != nil { // again
		t.Fatal(err)
	}
	later, err := newEnded(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []*ended{e, later} {
		for i := range n {
			if !e.has(opened(i)) {
				t.Fatalf("%d is not noted", i)
			}
		}
		if e.has(opened(n)) || e.has(sessionKey{"bob", opened(n - 1).id}) || len(e.notes) > maxEnded || len(e.order) != len(e.notes) {
			t.Errorf("%d notes", len(e.notes))
		}
	}
	text, err := os.ReadFile(file)
	if err != nil || strings.Count(string(text), "\n") > maxEnded+1 || strings.Contains(string(text), "-X") {
		t.Errorf("%d lines, %v", strings.Count(string(text), "\n"), err)
	}
}

// Where the notes cannot be read no session from before is opened again, and the server serves.
func TestEndedCannotBeRead(t *testing.T) {
	t.Parallel()
	before := sessionKey{"alice", stamp() + "X.e30"}
	e, err := newEnded(t.TempDir())
	if err == nil || !e.has(before) || e.has(sessionKey{"alice", strconv.FormatInt(time.Now().Unix()+5, 36) + "-X.e30"}) {
		t.Errorf("%v", err)
	}
	f := serve(t, Options{Ended: t.TempDir()})
	f.wants(204, "", "DELETE", "", f.open()) // though it cannot be noted
}

// A session that one process notes as ended is known to the others that have the same state, also while notes
// are let go.
func TestEndedIsShared(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ended")
	var all [2]*ended
	for i := range all {
		var err error
		if all[i], err = newEnded(file); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now().Unix() - maxEnded
	opened := func(i int) sessionKey {
		return sessionKey{"alice", fmt.Sprintf("%s-%d.e30", strconv.FormatInt(began, 36), i)}
	}
	const each = maxEnded/2 + 10
	var both sync.WaitGroup
	for p, e := range all {
		both.Go(func() {
			for i := range each {
				if err := e.note(opened(i*2 + p)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	both.Wait()
	later, err := newEnded(file)
	if err != nil {
		t.Fatal(err)
	}
	for p, e := range append(all[:], later) {
		for i := range 2 * each {
			if !e.has(opened(i)) {
				t.Fatalf("%d: %d is not noted", p, i)
			}
		}
		if e.has(sessionKey{"alice", fmt.Sprintf("%s-X.e30", strconv.FormatInt(began+1, 36))}) {
			t.Errorf("%d: another one is noted", p)
		}
	}
}

// A line that was not written whole, as when the disk was full or the process was killed, costs no other one.
func TestEndedIsTorn(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ended")
	now := strconv.FormatInt(time.Now().Unix(), 10)
	first := sessionKey{"alice", stamp() + "X.e30"}
	second := sessionKey{"alice", stamp() + "Y.e30"}
	third := sessionKey{"alice", stamp() + "Z.e30"}
	for _, torn := range []string{"", now[:4], now, now + " ", now + " 0123"} {
		_ = os.Remove(file)
		for _, k := range []sessionKey{first, second} {
			e, err := newEnded(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := e.note(k); err != nil {
				t.Fatal(err)
			}
			f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = f.WriteString(torn)
			_ = f.Close()
		}
		if e, err := newEnded(file); err != nil || !e.has(first) || !e.has(second) || e.has(third) {
			t.Errorf("%q: %v %v %v, %v", torn, e.has(first), e.has(second), e.has(third), err)
		}
	}
}

// No client can say that a session was opened later than now, and so have all others taken for noted.
func TestEndedInTheFuture(t *testing.T) {
	t.Parallel()
	e, err := newEnded(filepath.Join(t.TempDir(), "ended"))
	if err != nil {
		t.Fatal(err)
	}
	future := func(i int) sessionKey { return sessionKey{"mallory", fmt.Sprintf("zzzzzzzz-%d.e30", i)} }
	if !e.has(future(0)) {
		t.Error("a session of the future can be opened again")
	}
	for i := range maxEnded + 1 {
		e.add(noteOf(future(i)))
	}
	if until := e.until[noteOf(future(0)).owner]; until == 0 || until > time.Now().Unix() {
		t.Fatalf("all sessions until %d are noted", until)
	}
}

// One owner who ends very many sessions does not keep the older sessions of another from being opened again,
// in this process or the next.
func TestEndedIsFair(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ended")
	e, err := newEnded(file)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now().Unix() - 2*maxEnded
	opened := func(owner string, i int) sessionKey {
		return sessionKey{owner, fmt.Sprintf("%s-X.e30", strconv.FormatInt(began+int64(i), 36))}
	}
	if err := e.note(opened("alice", 1)); err != nil {
		t.Fatal(err)
	}
	for i := range maxEnded + 10 {
		if err := e.note(opened("mallory", i)); err != nil {
			t.Fatal(err)
		}
	}
	later, err := newEnded(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []*ended{e, later} {
		if e.has(opened("alice", 0)) || e.has(opened("alice", 2)) || !e.has(opened("alice", 1)) || !e.has(opened("mallory", 0)) || !e.has(opened("mallory", maxEnded)) {
			t.Errorf("alice: %v %v %v", e.has(opened("alice", 0)), e.has(opened("alice", 1)), e.has(opened("alice", 2)))
		}
	}
}

// While a note waits for the file, others who ask do not wait, and already learn of it.
func TestEndedIsSlowToWrite(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ended")
	e, err := newEnded(file)
	if err != nil {
		t.Fatal(err)
	}
	lock, err := system.OpenLockable(file+".lock", os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := system.Lock(lock); err != nil {
		t.Fatal(err)
	}
	key := sessionKey{"alice", stamp() + "X.e30"}
	noted := make(chan error, 1)
	go func() { noted <- e.note(key) }()
	for !e.has(key) {
		runtime.Gosched()
	}
	if len(noted) > 0 {
		t.Error("asking waited for the file")
	}
	_ = lock.Close()
	if err := <-noted; err != nil {
		t.Error(err)
	}
}

// The notes of very many owners are bounded, too, and one about everybody counts for all of them.
func TestEndedOfManyOwners(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ended")
	began := time.Now().Unix() - 4*maxEnded
	if err := os.WriteFile(file, fmt.Appendf(nil, "%d * *\n", began), 0o600); err != nil {
		t.Fatal(err)
	}
	e, err := newEnded(file)
	if err != nil {
		t.Fatal(err)
	}
	opened := func(owner, i int) sessionKey {
		return sessionKey{strconv.Itoa(owner), fmt.Sprintf("%s-%d.e30", strconv.FormatInt(began+int64(i), 36), owner)}
	}
	if !e.has(opened(1, 0)) || e.has(opened(1, 1)) {
		t.Error("not everybody")
	}
	e.file = "" // so many writes would take long
	for i := range maxEnded + maxUntil + 200 {
		if err := e.note(opened(i/2, i+10)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range maxEnded + maxUntil + 200 {
		if !e.has(opened(i/2, i+10)) {
			t.Fatalf("%d is not noted", i)
		}
	}
	if len(e.order) > maxEnded || len(e.notes) != len(e.order) || len(e.until) > maxUntil+1 {
		t.Errorf("%d notes, %d owners", len(e.notes), len(e.until))
	}
}

// A note whose rewriting fails is not lost: the next one writes it as well.
func TestEndedCannotBeRewritten(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ended")
	e, err := newEnded(file)
	if err != nil {
		t.Fatal(err)
	}
	first, second := sessionKey{"alice", stamp() + "X.e30"}, sessionKey{"alice", stamp() + "Y.e30"}
	e.crowded = true
	if err := os.Mkdir(file+".new", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := e.note(first); err == nil {
		t.Fatal("the file was written")
	}
	if err := os.Remove(file + ".new"); err != nil {
		t.Fatal(err)
	}
	if err := e.note(second); err != nil {
		t.Fatal(err)
	}
	if later, err := newEnded(file); err != nil || !later.has(first) || !later.has(second) {
		t.Errorf("%v %v, %v", later.has(first), later.has(second), err)
	}
}

// Notes that could not be read when another one was written are read as soon as they can be.
func TestEndedIsReadLater(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ended")
	first, second := sessionKey{"alice", stamp() + "X.e30"}, sessionKey{"alice", stamp() + "Y.e30"}
	e, err := newEnded(file)
	if err != nil {
		t.Fatal(err)
	}
	other, err := newEnded(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := other.note(first); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, 0o200); err != nil {
		t.Fatal(err)
	}
	if _, err := os.ReadFile(file); err == nil {
		t.Skip("this user can read every file")
	}
	if err := e.note(second); err == nil {
		t.Error("the notes were read")
	}
	if err := os.Chmod(file, 0o600); err != nil {
		t.Fatal(err)
	}
	if !e.has(first) {
		t.Error("the notes of another process are not known")
	}
}

// Many notes at once wait for each other, however long that takes: only another process's lock has a limit.
func TestEndedManyAtOnce(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ended")
	e, err := newEnded(file)
	if err != nil {
		t.Fatal(err)
	}
	e.patience = 100 * time.Millisecond
	began, done := make(chan struct{}), make(chan error)
	go func() {
		done <- e.locked(func() error {
			close(began)
			time.Sleep(2 * e.patience) // a slow disk
			return nil
		})
	}()
	<-began
	if err := e.note(sessionKey{"alice", stamp() + "X.e30"}); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}
