package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"runnel/partials"
	"runnel/tasks"
	"runnel/tasks/statetest"
)

// Numbers that were stored since the end of the log was looked up are read with the next look, all of them.
func TestNumbersAreReadInWholeRows(t *testing.T) {
	s := openStore(t, Options{})
	task := statetest.Working("a")
	statetest.Put(t, s, task)
	k := s.db.live["a"]
	for range 3 {
		if err := task.Log.Append(t.Context(), partials.Chunk{Data: []byte("ten bytes\n")}); err != nil {
			t.Fatal(err)
		}
		task.Segments.Number(task.Log.Size())
	}
	if err := s.db.w.do(k.job()); err != nil {
		t.Fatal(err)
	}
	var numbers []int64
	for _, end := range []int64{15, 30} {
		last := int64(0)
		if n := len(numbers); n > 0 {
			last = numbers[n-1]
		}
		more, err := k.loadSegments(t.Context(), len(numbers), last, end)
		if err != nil {
			t.Fatal(err)
		}
		numbers = append(numbers, more...)
		if n := len(numbers); n > 0 && numbers[n-1] > end {
			t.Errorf("numbers up to %d of a log that ends at %d", numbers[n-1], end)
		}
	}
	if want := []int64{10, 20, 30}; !slices.Equal(numbers, want) {
		t.Errorf("segments end at %v, want %v", numbers, want)
	}
}

// hold takes the write lock of a state, as a process does that was stopped in a transaction.
func hold(t *testing.T, dir string) (letGo func()) {
	db, err := sql.Open("sqlite", dsn(filepath.Join(dir, databaseFile)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	stopped, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stopped.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	return func() {
		if _, err := stopped.ExecContext(t.Context(), "ROLLBACK"); err != nil {
			t.Error(err)
		}
		if err := stopped.Close(); err != nil {
			t.Error(err)
		}
	}
}

// impatience is instead of busyTimeout in stores that are made impatient.
const impatience = 500 * time.Millisecond

// impatient lets an open store wait for other processes no longer than impatience.
func impatient(t *testing.T, s *State) {
	if err := s.db.w.do(job{do: func(tx *transaction) error {
		_, err := tx.exec(fmt.Sprintf("PRAGMA busy_timeout = %d", impatience.Milliseconds()))
		return err
	}}); err != nil {
		t.Fatal(err)
	}
}

// A state is opened, read and closed while another process holds the write lock: one that was stopped in a
// transaction does so for long.
func TestOpenWaitsForNoWriter(t *testing.T) {
	dir := t.TempDir()
	first := New(Options{Dir: dir})
	defer first.Close()
	if err := first.Recover(); err != nil {
		t.Fatal(err)
	}
	letGo := hold(t, dir)
	began := time.Now()
	second := New(Options{Dir: dir})
	if _, err := second.Open("me").Get(t.Context(), "unknown"); !errors.Is(err, tasks.ErrNotFound) {
		t.Errorf("reading: %v", err)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took >= busyTimeout {
		t.Errorf("it took %v", took)
	}
	letGo()
}

// Callers that wait for a process that was stopped in a transaction are told so at the same time, not one
// after the other. Output, which nobody asks for yet, waits.
func TestBusyIsToldToAll(t *testing.T) {
	s := openStore(t, Options{})
	writes := statetest.Working("writes")
	statetest.Put(t, s, writes)
	impatient(t, s)
	letGo := hold(t, s.Dir())
	if err := writes.Log.Append(t.Context(), partials.Chunk{Data: []byte("output\n")}); err != nil {
		t.Fatal(err)
	}
	const waiting = 200
	told := make(chan error, waiting)
	for i := range waiting {
		go func() { told <- s.Open("local").Put(context.Background(), statetest.Working(fmt.Sprint(i))) }()
	}
	watchdog := time.After(waiting * impatience / 2)
	for range waiting {
		select {
		case err := <-told:
			if err == nil || !strings.Contains(err.Error(), "another process has held the state locked") {
				t.Errorf("told %v", err)
			}
		case <-watchdog:
			t.Fatal("some are still not told")
		}
	}
	if err := writes.Log.Failed(); err != nil {
		t.Error(err)
	}
	letGo()
	statetest.Eventually(t, func() bool {
		return statetest.ReadAll(t,
			statetest.Get(t, s, "writes").Log) == "output\n"
	})
}
