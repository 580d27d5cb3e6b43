package httpserver

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
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

// A session that one process notes as ended is known to the others that have the same state, also while notes are let go.
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
	first, second, third := sessionKey{"alice", stamp() + "X.e30"}, sessionKey{"alice", stamp() + "Y.e30"}, sessionKey{"alice", stamp() + "Z.e30"}
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
		if e.add(future(i).hash(), openedAt(future(i).id)) && e.until > time.Now().Unix() {
			t.Fatalf("all sessions until %d are noted", e.until)
		}
	}
}
