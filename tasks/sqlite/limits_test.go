package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/run"
	"runnel/tasks/statetest"
)

// A job that is done again, since one beside it failed, is refused only if it is refused then.
func TestSQLiteRefusedIsNotKept(t *testing.T) {
	s := openStore(t, Options{})
	statetest.Put(t, s, statetest.Working("task"))
	d, err := s.open()
	if err != nil {
		t.Fatal(err)
	}
	d.stopSweeper() // it would queue, too
	d.sweeper.Wait()
	broken := errors.New("broken")
	queue := func(write func()) {
		d.w.mu.Lock()
		n := len(d.w.jobs)
		d.w.mu.Unlock()
		go write()
		statetest.Eventually(t, func() bool {
			d.w.mu.Lock()
			defer d.w.mu.Unlock()
			return len(d.w.jobs) == n+1
		})
	}
	busy, begun := make(chan struct{}), make(chan struct{})
	go d.w.do(job{do: func(*transaction) error { close(begun); <-busy; return nil }})
	<-begun
	again := false
	queue(func() {
		_ = d.w.do(job{do: func(tx *transaction) error {
			if again {
				return broken
			}
			again = true
			_, err := tx.exec("UPDATE task SET keeper = NULL WHERE id = 'task'") // as its end does
			return err
		}})
	})
	merged, refused := make(chan []byte, 1), make(chan error, 1)
	queue(func() {
		variables, err := s.Open("local").SetVariables(t.Context(), "task", []byte(`{"a":1}`))
		merged <- variables
		refused <- err
	})
	queue(func() { _ = d.w.do(job{do: func(*transaction) error { return broken }}) })
	close(busy)
	if variables, err := <-merged, <-refused; err != nil || string(variables) != `{"a":1}` {
		t.Errorf("%s, %v", variables, err)
	}
}

// A long log keeps its head and its tail.
func TestSQLiteLimitsLogs(t *testing.T) {
	t.Parallel()
	s := openStore(t, Options{})
	task := statetest.Working("task")
	task.Log.SetLimit(1 << 20)
	statetest.Put(t, s, task)
	var want bytes.Buffer
	for i := 0; want.Len() < 8<<20; i++ {
		line := fmt.Sprintf("line %d %0100d\n", i, i)
		want.WriteString(line)
		if err := task.Log.Append(t.Context(), partials.Chunk{Data: []byte(line)}); err != nil {
			t.Fatal(err)
		}
	}
	statetest.Put(t, s, statetest.Ended(task, mcp.TaskCompleted, "done"))
	l := statetest.Get(t, s, "task").Log
	if l.Size() != int64(want.Len()) {
		t.Fatalf("size %d, want %d", l.Size(), want.Len())
	}
	var head, tail strings.Builder
	for pos, gap := int64(0), false; pos < l.Size(); {
		b, next, err := l.ReadAt(t.Context(), pos, 64<<10)
		if err != nil {
			t.Fatal(err)
		}
		gap = gap || b.Start > pos
		for _, c := range b.Chunks() {
			if gap {
				tail.Write(c.Data)
			} else {
				head.Write(c.Data)
			}
		}
		pos = next
	}
	if n := head.Len(); n < 384<<10 || n > 512<<10 || !strings.HasPrefix(want.String(), head.String()) {
		t.Errorf("head of %d bytes", n)
	}
	if n := tail.Len(); n < 320<<10 || n > 640<<10 || !strings.HasSuffix(want.String(), tail.String()) {
		t.Errorf("tail of %d bytes", n)
	}
}

// The state stays below its limit: what ended first goes first, what runs stays, and what a running task has begun
// goes last.
func TestSQLiteLimitsItsSize(t *testing.T) {
	t.Parallel()
	const limit = 8 << 20
	s := openStore(t, Options{MaxState: limit})
	running := statetest.Working("running", "still here")
	statetest.Put(t, s, running)
	begun := statetest.Working("begun", "needed")
	begun.Variables = json.RawMessage(`{"` + tasks.AboveNote + `":"running"}`)
	statetest.Put(t, s, statetest.Ended(begun, mcp.TaskCompleted, "done"))
	line := []byte(strings.Repeat("x", 1023) + "\n")
	for i := range 40 {
		task := statetest.Working(fmt.Sprint("ended", i))
		statetest.Put(t, s, task)
		for range 1 << 10 {
			if err := task.Log.Append(t.Context(), partials.Chunk{Data: line}); err != nil {
				t.Fatalf("task %d: %v", i, err)
			}
		}
		statetest.Put(t, s, statetest.Ended(task, mcp.TaskCompleted, "done"))
	}
	info, err := os.Stat(filepath.Join(s.o.Dir, databaseFile))
	if err != nil || info.Size() > limit {
		t.Errorf("%d bytes, limit %d, %v", info.Size(), limit, err)
	}
	if got := statetest.ReadAll(t, statetest.Get(t, s, "running").Log); got != "still here" {
		t.Errorf("the running task's log: %q", got)
	}
	if n := len(statetest.ReadAll(t, statetest.Get(t, s, "ended39").Log)); n != 1<<20 {
		t.Errorf("the newest ended task has %d bytes", n)
	}
	if _, err := s.Open("local").Get(t.Context(), "ended0"); !errors.Is(err, tasks.ErrNotFound) {
		t.Errorf("the oldest: %v", err)
	}
	// A sweep makes room before it is needed.
	used := func() int64 {
		t.Helper()
		used, err := s.db.used(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return used
	}
	for i := 0; used() <= limit-limit/8; i++ {
		statetest.Put(t, s, statetest.Ended(statetest.Working(fmt.Sprint("small", i),
			strings.Repeat("x", 128<<10)), mcp.TaskCompleted, "done"))
	}
	if err := s.db.sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := used(); n > limit-limit/8 {
		t.Errorf("%d bytes are used after a sweep", n)
	}
	if got := statetest.ReadAll(t, statetest.Get(t, s, "begun").Log); got != "needed" {
		t.Errorf("what the running task has begun: %q", got)
	}
	// Nothing else has ended, and there must be room for what runs.
	for i := range 10 {
		begun := statetest.Working(fmt.Sprint("begun", i), strings.Repeat("x", 1<<20))
		begun.Variables = json.RawMessage(`{"` + tasks.AboveNote + `":"running"}`)
		statetest.Put(t, s, statetest.Ended(begun, mcp.TaskCompleted, "done"))
	}
	if _, err := s.Open("local").Get(t.Context(), "begun"); !errors.Is(err, tasks.ErrNotFound) {
		t.Errorf("the oldest of what the running task has begun: %v", err)
	}
}

// A task with more output than one transaction deletes goes whole, and its room is given back to the file
// system.
func TestSQLiteGivesRoomBack(t *testing.T) {
	t.Parallel()
	s := openStore(t, Options{})
	task := statetest.Working("task")
	statetest.Put(t, s, task)
	line := []byte(strings.Repeat("x", 64<<10-1) + "\n")
	for range sliceRows + sliceRows/4 {
		if err := task.Log.Append(t.Context(), partials.Chunk{Data: line}); err != nil {
			t.Fatal(err)
		}
	}
	statetest.Put(t, s, statetest.Ended(task, mcp.TaskCompleted, "done"))
	size := func() (pages int) {
		t.Helper()
		if err := s.db.read.QueryRow("PRAGMA page_count").Scan(&pages); err != nil {
			t.Fatal(err)
		}
		return pages
	}
	before := size()
	if err := s.db.w.do(job{do: func(tx *transaction) error {
		_, err := tx.exec("UPDATE task SET expires = 1")
		return err
	}}); err != nil {
		t.Fatal(err)
	}
	if err := s.db.sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	awaitNoRows(t, s.Dir())
	if after := size(); before < leastFree || after > before-leastFree {
		t.Errorf("%d pages of %d are left", after, before)
	}
}

// A database that somebody has restored from a dump cannot give room back: a prune ends all the same.
func TestPruneOfARestoredState(t *testing.T) {
	s := openStore(t, Options{})
	task := statetest.Working("task")
	statetest.Put(t, s, task)
	if err := task.Log.Append(t.Context(),
		partials.Chunk{Data: []byte(strings.Repeat("x", 100<<10))}); err != nil {
		t.Fatal(err)
	}
	statetest.Put(t, s, statetest.Ended(task, mcp.TaskCompleted, "done"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", filepath.Join(s.Dir(), databaseFile))
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	for _, query := range []string{"PRAGMA journal_mode = DELETE", "PRAGMA auto_vacuum = NONE", "VACUUM"} {
		if _, err := db.Exec(query); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, Options{Dir: s.Dir()})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if gone, _, err := s.Open(task.Owner).(*store).Forget(ctx, time.Now().Add(time.Hour), true); err != nil ||
		len(gone) != 1 {
		t.Errorf("%d tasks, %v", len(gone), err)
	}
}

// One running task that fills the state fails, with a reason; the others do not.
func TestSQLiteFullFailsTheTask(t *testing.T) {
	s := openStore(t, Options{MaxState: 4 << 20})
	r := run.NewRunner(run.Options{State: s, Log: zerolog.Nop()})
	defer r.Close()
	small := statetest.Start(t, r, statetest.UntilDone)
	small.Delivered()
	big := statetest.Start(t, r, func(ctx context.Context, running *run.Run) run.Done {
		line := []byte(strings.Repeat("x", 1023) + "\n")
		for {
			if err := running.Log().Append(ctx, partials.Chunk{Data: line}); err != nil {
				return run.Done{Result: mcp.ErrorResult(err.Error())}
			}
		}
	})
	big.Delivered()
	<-big.Ended()
	if task := big.Task(); task.Status != mcp.TaskFailed ||
		!strings.Contains(task.StatusMessage, "state.maxState") {
		t.Errorf("ended %s: %q", task.Status, task.StatusMessage)
	}
	if status := small.Task().Status; status != mcp.TaskWorking {
		t.Errorf("the other task: %s", status)
	}
	if _, err := s.Open("local").Get(t.Context(), big.ID()); err != nil {
		t.Error(err)
	}
	small.Cancel("enough")
	if task := statetest.Get(t, s, small.ID()); task.Status != mcp.TaskCancelled {
		t.Errorf("the other task, cancelled: %s", task.Status)
	}
}
