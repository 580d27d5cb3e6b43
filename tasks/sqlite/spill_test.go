package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/run"
	"runnel/tasks/statetest"
)

// spilled is how much a run writes here: more than memory keeps of any log.
const spilled = 12 << 20

// spiller starts a run without a handle that has written spilled bytes when it returns. It ends when done is
// closed.
func spiller(t *testing.T, r *run.Runner) (task *run.Run, want []byte, done chan struct{}) {
	t.Helper()
	for i := 0; len(want) < spilled; i++ {
		want = fmt.Appendf(want, "line %058d\n", i)
	}
	written, done := make(chan struct{}), make(chan struct{})
	task, err := r.Start(t.Context(),
		run.Spec{Tool: "test", Late: true, Work: func(ctx context.Context, task *run.Run) run.Done {
			for rest := want; len(rest) > 0; {
				n := min(len(rest), 32<<10)
				if err := task.Log().Append(ctx, partials.Chunk{Data: rest[:n]}); err != nil {
					return run.Done{Err: err}
				}
				rest = rest[n:]
			}
			close(written)
			select {
			case <-done:
			case <-ctx.Done():
			}
			return run.Done{Result: mcp.Result("fine")}
		}})
	if err != nil {
		t.Fatal(err)
	}
	task.Delivered()
	select {
	case <-written:
	case <-task.Ended():
		t.Fatalf("ended: %+v", task.Task())
	}
	return task, want, done
}

// The output of a call from before it became a task is there, however much it is, and none of it shows
// before.
func TestLateHandleKeepsAll(t *testing.T) {
	t.Parallel()
	s := openStore(t, Options{Limits: tasks.Limits{MaxLive: 1, MaxStartsPerMinute: 1}})
	r := statetest.NewRunner(t, run.Options{State: s})
	run, want, done := spiller(t, r)
	if _, err := s.Open("local").Get(t.Context(), run.ID()); !errors.Is(err, tasks.ErrNotFound) {
		t.Errorf("before it has a handle: %v, want ErrNotFound", err)
	}
	if got := statetest.IDs(t, s, 10); len(got) > 0 {
		t.Errorf("listed before it has a handle: %v", got)
	}
	if err := run.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	close(done)
	<-run.Ended()
	task, err := s.Open("local").Get(t.Context(), run.ID())
	if err != nil {
		t.Fatal(err)
	}
	for name, log := range map[string]*partials.Log{"the run's": run.Log(), "the stored": task.Log} {
		if got := statetest.ReadAll(t, log); !bytes.Equal([]byte(got), want) {
			t.Errorf("%s log has %d bytes and begins %.50q, want %d from %.20q", name, len(got), got,
				len(want), want)
		}
	}
	if task.Status != mcp.TaskCompleted {
		t.Errorf("status %s, want completed", task.Status)
	}
}

// rows counts what a state holds of tasks and output.
func rows(t *testing.T, dir string) (n int) {
	t.Helper()
	db, err := sql.Open("sqlite", dsn(filepath.Join(dir, databaseFile), "query_only(1)"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.QueryRowContext(t.Context(),
		"SELECT (SELECT count(*) FROM task) + (SELECT count(*) FROM log)").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func awaitNoRows(t *testing.T, dir string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); rows(t, dir) > 0; {
		if time.Now().After(deadline) {
			t.Fatalf("%d rows are left", rows(t, dir))
		}
		<-time.After(50 * time.Millisecond)
	}
}

// A call that never becomes a task leaves nothing in the state: neither when it has ended, nor when its
// process has died.
func TestSpilledWithoutHandle(t *testing.T) {
	t.Parallel()
	t.Run("ended", func(t *testing.T) {
		s := openStore(t, Options{})
		run, _, done := spiller(t, statetest.NewRunner(t, run.Options{State: s}))
		if rows(t, s.Dir()) == 0 {
			t.Fatal("nothing was stored")
		}
		close(done)
		<-run.Ended()
		if got := run.Task().Outcome; got == nil || got.Result == nil || got.Result.IsError {
			t.Errorf("ended with %+v", got)
		}
		awaitNoRows(t, s.Dir())
	})
	t.Run("died", func(t *testing.T) {
		s := openStore(t, Options{})
		run, _, _ := spiller(t, statetest.NewRunner(t, run.Options{State: s}))
		s.die()
		if rows(t, s.Dir()) == 0 {
			t.Fatal("nothing was stored")
		}
		next := openStore(t, Options{Dir: s.Dir()})
		if err := next.Recover(); err != nil {
			t.Fatal(err)
		}
		if _, err := next.Open("local").Get(t.Context(), run.ID()); !errors.Is(err, tasks.ErrNotFound) {
			t.Errorf("got %v, want ErrNotFound", err)
		}
		awaitNoRows(t, s.Dir())
	})
}

// Where the state could not keep the output for a while, a task goes on after what was stored.
func TestRevealedBehindWhatIsStored(t *testing.T) {
	t.Parallel()
	s := openStore(t, Options{})
	task := statetest.Working("a")
	if err := statetest.Hide(s, task); err != nil {
		t.Fatal(err)
	}
	var want []byte
	write := func(lines int) {
		t.Helper()
		line := append(bytes.Repeat([]byte("x"), 1023), '\n')
		for range lines {
			want = append(want, line...)
			if err := task.Log.Append(t.Context(), partials.Chunk{Data: line}); err != nil {
				t.Fatal(err)
			}
		}
	}
	write(1000)
	statetest.Eventually(t, func() bool {
		var stored sql.NullInt64
		err := s.db.read.QueryRow("SELECT max(stop) FROM log").Scan(&stored)
		return err == nil && stored.Int64 == int64(len(want))
	})
	task.Log.Unback() // what follows a write that has failed
	write(10)
	statetest.Put(t, s, task)
	write(10)
	statetest.Put(t, s, statetest.Ended(task, mcp.TaskCompleted, "fine"))
	if err := task.Log.Failed(); err != nil {
		t.Error(err)
	}
	if got := statetest.ReadAll(t, statetest.Get(t, s, "a").Log); got != string(want) {
		t.Errorf("%d bytes are stored, want %d", len(got), len(want))
	}
}

// A call whose output the state has no room for goes on, and becomes a task that keeps the end of it.
func TestSpillWithoutRoom(t *testing.T) {
	t.Parallel()
	s := openStore(t, Options{MaxState: 12 << 20})
	run, want, done := spiller(t, statetest.NewRunner(t, run.Options{State: s}))
	close(done)
	<-run.Ended()
	if got := run.Task().Outcome; got == nil || got.Result == nil || got.Result.IsError {
		t.Errorf("ended with %+v", got)
	}
	if tail, _, err := run.Log().ReadAt(t.Context(), int64(len(want))-100, 1<<10); err != nil ||
		tail.End != int64(len(want)) {
		t.Errorf("the end of the output: %+v, %v", tail, err)
	}
}
