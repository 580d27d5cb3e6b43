package tasks

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"runnel/partials"
	"runnel/rpc/mcp"
)

// Cancelling and waiting reach a task that another process runs.
func TestTaskElsewhere(t *testing.T) {
	dir := t.TempDir()
	here, there := NewRunner(Options{Store: openStore(t, SQLiteOptions{Dir: dir})}), NewRunner(Options{Store: openStore(t, SQLiteOptions{Dir: dir})})
	defer here.Close()
	defer there.Close()
	first, second := start(t, there, untilDone), start(t, there, func(context.Context, *Run) (*mcp.CallToolResult, string, error) {
		return mcp.Result("done there"), "", nil
	})
	first.Deliver(func(ctx context.Context) { <-ctx.Done() })
	got, err := here.Get(t.Context(), first.ID())
	if err != nil || got.Status != mcp.TaskWorking {
		t.Fatalf("%s, %v", got.Status, err)
	}
	if got, err = here.Cancel(t.Context(), first.ID()); err != nil || got.Status != mcp.TaskCancelled {
		t.Errorf("cancelled from elsewhere: %s, %v", got.Status, err)
	}
	<-first.Ended()
	if got, err = here.Cancel(t.Context(), first.ID()); !errors.Is(err, ErrEnded) {
		t.Errorf("cancelled again: %s, %v", got.Status, err)
	}
	awaited := make(chan Task)
	go func() {
		task, err := here.Await(context.Background(), second.ID())
		if err != nil {
			t.Error(err)
		}
		awaited <- task
	}()
	second.Deliver(delivered)
	if task := <-awaited; task.Status != mcp.TaskCompleted || task.Outcome == nil {
		t.Errorf("awaited from elsewhere: %+v", task)
	}
	other := NewRunner(Options{Store: openStore(t, SQLiteOptions{Dir: dir}), Owner: "other"})
	defer other.Close()
	if _, err := other.Cancel(t.Context(), second.ID()); !errors.Is(err, ErrNotFound) {
		t.Errorf("cancelled by somebody else: %v", err)
	}
}

// slowAsk is a store whose write lock another process holds for a while: to ask for a cancellation takes long, and is followed at once.
type slowAsk struct {
	Shared
	task  Task
	asked time.Time
}

func (s *slowAsk) Ask(context.Context, string, string) error {
	time.Sleep(time.Minute)
	s.asked = time.Now()
	return nil
}

func (s *slowAsk) Get(context.Context, string, string) (Task, error) {
	if !s.asked.IsZero() && time.Since(s.asked) >= time.Second {
		s.task.Status = mcp.TaskCancelled
	}
	return s.task, nil
}

// Who runs a task has all of its time to cancel it from when it could know of that.
func TestAskTimeoutBeginsWhenAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(t, Options{Store: &slowAsk{task: logged("a")}, AskTimeout: 10 * time.Second})
		if task, err := r.Cancel(t.Context(), "a"); err != nil || task.Status != mcp.TaskCancelled {
			t.Errorf("%s, %v", task.Status, err)
		}
	})
}

// Two runnels on one state give one number to a segment of a task that one of them runs.
func TestNumbersElsewhere(t *testing.T) {
	dir := t.TempDir()
	here, there := newRunner(t, Options{Store: openStore(t, SQLiteOptions{Dir: dir})}), newRunner(t, Options{Store: openStore(t, SQLiteOptions{Dir: dir})})
	lines := make(chan string)
	run, err := here.Start(t.Context(), Spec{Handle: true, Merge: true, Work: func(ctx context.Context, run *Run) (*mcp.CallToolResult, string, error) {
		for line := range lines {
			if err := run.Log().Append(ctx, partials.Chunk{Data: []byte(line)}); err != nil {
				return nil, "", err
			}
		}
		run.Rest(nil)
		return &mcp.CallToolResult{}, "", nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	run.Delivered()
	page := func(r *Runner, last int64) string {
		task, err := r.Get(t.Context(), run.ID())
		if err != nil {
			t.Fatal(err)
		}
		return string(task.Segments.After(last, 1<<20).Content)
	}
	end := sync.OnceFunc(func() { close(lines) })
	defer end()
	lines <- "one\n"
	eventually(t, func() bool { return page(here, 0) != "[]" })
	want := `[{"seqNr":2,"type":"text","text":"two\n"}]`
	lines <- "two\n"
	eventually(t, func() bool { return page(there, 1) != "[]" })
	if got := page(there, 1); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	lines <- "three\n"
	eventually(t, func() bool { return page(there, 2) != "[]" })
	end()
	<-run.Ended()
	want = `[{"seqNr":2,"type":"text","text":"two\n"},{"seqNr":3,"type":"text","text":"three\n"}]`
	for _, r := range []*Runner{here, there} {
		if got := page(r, 1); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// Numbers that were stored since the end of the log was looked up are read with the next look, all of them.
func TestNumbersAreReadInWholeRows(t *testing.T) {
	s := openStore(t, SQLiteOptions{})
	task := logged("a")
	put(t, s, task)
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
func impatient(t *testing.T, s *SQLite) {
	if err := s.db.w.do(job{do: func(tx *transaction) error {
		_, err := tx.exec(fmt.Sprintf("PRAGMA busy_timeout = %d", impatience.Milliseconds()))
		return err
	}}); err != nil {
		t.Fatal(err)
	}
}

// A state is opened, read and closed while another process holds the write lock: one that was stopped in a transaction does so for long.
func TestOpenWaitsForNoWriter(t *testing.T) {
	dir := t.TempDir()
	first := NewSQLite(SQLiteOptions{Dir: dir})
	defer first.Close()
	if err := first.Open(); err != nil {
		t.Fatal(err)
	}
	letGo := hold(t, dir)
	began := time.Now()
	second := NewSQLite(SQLiteOptions{Dir: dir})
	if _, err := second.Get(t.Context(), "me", "unknown"); !errors.Is(err, ErrNotFound) {
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

// Who waits for a process that was stopped in a transaction is not told that one after the other. Output, which nobody asks for yet, waits.
func TestBusyIsToldToAll(t *testing.T) {
	s := openStore(t, SQLiteOptions{})
	writes := logged("writes")
	put(t, s, writes)
	impatient(t, s)
	letGo := hold(t, s.Dir())
	if err := writes.Log.Append(t.Context(), partials.Chunk{Data: []byte("output\n")}); err != nil {
		t.Fatal(err)
	}
	const waiting = 200
	told := make(chan error, waiting)
	for i := range waiting {
		go func() { told <- s.Put(context.Background(), working(fmt.Sprint(i))) }()
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
	eventually(t, func() bool { return readAll(t, get(t, s, "writes").Log) == "output\n" })
}

// What a task of another process says is the last line of its output, also behind a large chunk.
func TestSaysElsewhere(t *testing.T) {
	dir := t.TempDir()
	here, there := NewRunner(Options{Store: openStore(t, SQLiteOptions{Dir: dir})}), NewRunner(Options{Store: openStore(t, SQLiteOptions{Dir: dir})})
	defer here.Close()
	defer there.Close()
	run := start(t, there, func(ctx context.Context, run *Run) (*mcp.CallToolResult, string, error) {
		for _, text := range []string{strings.Repeat("much ", tailBytes) + "\n", "the last line\n"} {
			if err := run.Log().Append(ctx, partials.Chunk{Data: []byte(text)}); err != nil {
				t.Error(err)
			}
		}
		return untilDone(ctx, run)
	})
	eventually(t, func() bool {
		got, err := here.Get(t.Context(), run.ID())
		return err == nil && got.StatusMessage == "the last line"
	})
}

// hasty is a store on which another process cancels a task while the one that runs it still stores it.
type hasty struct {
	*SQLite
	other  *SQLite
	runner *Runner
}

func (s *hasty) Put(ctx context.Context, t Task) error {
	if err := s.SQLite.Put(ctx, t); err != nil || t.Status.Terminal() {
		return err
	}
	run := s.runner.Running(t.ID)
	if err := s.other.Ask(ctx, t.Owner, t.ID); err != nil {
		return err
	}
	<-run.ctx.Done() // it is heeded
	select {
	case <-run.Ended():
	case <-time.After(100 * time.Millisecond): // it must not end yet, however long this takes
	}
	return nil
}

// lives notes what an Observer is told of tasks.
type lives struct {
	unobserved
	told []string
}

func (l *lives) Created(string) { l.told = append(l.told, "created") }

func (l *lives) Ended(_ string, status mcp.TaskStatus, _ time.Duration) {
	l.told = append(l.told, string(status))
}

// A task that is cancelled from elsewhere before its start is over ends behind it, and its expiry with it.
func TestCancelledWhileItIsStored(t *testing.T) {
	for name, handle := range map[string]bool{"started": true, "promoted": false} {
		t.Run(name, func(t *testing.T) {
			dir, told := t.TempDir(), &lives{}
			store := &hasty{SQLite: openStore(t, SQLiteOptions{Dir: dir}), other: openStore(t, SQLiteOptions{Dir: dir})}
			store.runner = newRunner(t, Options{Store: store, Observer: told})
			run, err := store.runner.Start(t.Context(), Spec{Handle: handle, Work: func(context.Context, *Run) (*mcp.CallToolResult, string, error) {
				return mcp.Result("done"), "", nil
			}})
			if err != nil {
				t.Fatal(err)
			}
			if err := run.Promote(t.Context()); !handle && err != nil {
				t.Error(err)
			}
			<-run.Ended()
			if got := run.Task().Status; got != mcp.TaskCancelled || store.runner.Running(run.ID()) != nil {
				t.Errorf("status %s, still running: %v", got, store.runner.Running(run.ID()) != nil)
			}
			if want := []string{"created", "cancelled"}; !slices.Equal(told.told, want) {
				t.Errorf("told %q, want %q", told.told, want)
			}
			if run.expiry.stop() {
				t.Error("its expiry is still waited for")
			}
		})
	}
}
