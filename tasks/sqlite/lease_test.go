package sqlite

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/run"
	"runnel/tasks/statetest"
)

// logBuffer is a log that several goroutines write.
type logBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// A lease's file that a cleaner has removed is taken again, before others look for it.
func TestLeaseIsRemoved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openStore(t, Options{Dir: dir})
	here, there := statetest.NewRunner(t, run.Options{State: s}),
		statetest.NewRunner(t, run.Options{State: openStore(t, Options{Dir: dir})})
	run := statetest.Start(t, here, statetest.UntilDone)
	run.Deliver(func(ctx context.Context) { <-ctx.Done() })
	if err := os.RemoveAll(dir + "/" + leaseDir); err != nil { // the folder, too
		t.Fatal(err)
	}
	statetest.Eventually(t, func() bool { return leaseHeld(dir+"/"+leaseDir, s.db.lease.name) })
	if task, err := there.Get(t.Context(), run.ID()); err != nil || task.Status != mcp.TaskWorking {
		t.Errorf("seen from elsewhere: %s, %v", task.Status, err)
	}
	if task, err := there.Cancel(t.Context(), run.ID()); err != nil || task.Status != mcp.TaskCancelled {
		t.Errorf("cancelled from elsewhere: %s, %v", task.Status, err)
	}
	<-run.Ended()
}

// A process that ends while it takes a task leaves a lease that says so, and the next one takes the task at
// the first look: a missing lease would say nothing for a minute.
func TestEndsWhileItTakes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := openStore(t, Options{Dir: dir})
	task := statetest.Working("a")
	task.Variables = []byte(`{"` + tasks.ResumeNote + `":"steps"}`)
	statetest.Put(t, first, task)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		s := openStore(t, Options{Dir: dir})
		left, err := statetest.Shared(s).Left(t.Context())
		if err != nil || len(left) != 1 {
			t.Fatalf("%v, %v", left, err)
		}
		err = s.db.w.do(job{durable: true, do: func(tx *transaction) error { // what Take does first
			_, err := tx.exec("UPDATE task SET keeper = ?, work = ? WHERE id = 'a'", s.db.lease.name, []byte("{}"))
			return err
		}})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Those that look while the lease's file is missing, or has just been made again, leave a running task as it
// is: its process lives.
func TestLooksWhileALeaseIsMissing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, other := openStore(t, Options{Dir: dir}), openStore(t, Options{Dir: dir})
	statetest.Put(t, s, statetest.Working("a"), statetest.Working("b"))
	working := func(looker *State) {
		t.Helper()
		for _, id := range []string{"a", "b"} {
			if task := statetest.Get(t, looker, id); task.Status != mcp.TaskWorking {
				t.Fatalf("%s: %s, %s", id, task.Status, task.StatusMessage)
			}
		}
		if err := looker.db.sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	working(other)
	for range 2 {
		if err := os.RemoveAll(dir + "/" + leaseDir); err != nil {
			t.Fatal(err)
		}
		working(other)
		working(openStore(t, Options{Dir: dir})) // which recovers what is left of others when it begins
		ctx, stop := context.WithCancel(t.Context())
		var looks sync.WaitGroup
		looks.Go(func() {
			for ctx.Err() == nil {
				if err := other.db.recoverAll(ctx); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			}
		})
		for range 20 {
			if _, err := s.db.lease.retake(); err != nil {
				t.Error(err)
			}
			_ = os.Remove(s.db.lease.path)
		}
		_, err := s.db.lease.retake()
		stop()
		looks.Wait()
		if err != nil {
			t.Fatal(err)
		}
		working(other)
	}
	s.die()
	if task := statetest.Get(t, other, "a"); task.Status != mcp.TaskFailed {
		t.Errorf("when its process has died: %s", task.Status)
	}
}

// A lease's file that stays missing is that of a process that has ended.
func TestAbsences(t *testing.T) {
	now := time.Now()
	var a absences
	type look struct {
		after time.Duration
		found holder
		gone  bool
	}
	for name, looks := range map[string][]look{
		"dead": {{0, dead, true}},
		"stays missing": {{0, missing, false}, {absentFor / 2, missing, false},
			{absentFor / 2, missing, true}, {1, missing, true}},
		"is made again": {{0, missing, false}, {absentFor / 2, missing, false},
			{absentFor / 2, alive, false}, {1, missing, false}},
		"all have stood": {{0, missing, false}, {absentFor, missing, false},
			{absentFor / 2, missing, false}, {absentFor / 2, missing, true}},
		"is found when dead": {{0, missing, false}, {1, dead, true}},
	} {
		for i, l := range looks {
			now = now.Add(l.after)
			if gone := a.see(name, l.found, now); gone != l.gone {
				t.Errorf("%s: look %d: %v", name, i, gone)
			}
		}
	}
}

// A task that others have ended, since the file was away, has one end: the one that they have stored. Its
// work is stopped, no output comes after its end, and the log says it.
func TestTaskEndedByOthers(t *testing.T) {
	for name, c := range map[string]struct {
		end  string // what others have done to the row
		says string
	}{
		"recovered": {"UPDATE task SET keeper = NULL, status = 'failed', message = 'its runnel is gone', outcome = CAST('{\"result\":{\"content\":[],\"isError\":true}}' AS BLOB)", "its runnel is gone"},
		"deleted":   {"DELETE FROM task", "the state no longer has the task"},
	} {
		t.Run(name, func(t *testing.T) {
			var log logBuffer
			s := openStore(t, Options{})
			r := run.NewRunner(run.Options{State: s, Log: zerolog.New(&log)})
			defer r.Close()
			done, more := make(chan struct{}), make(chan struct{})
			quiet := statetest.Start(t, r, func(context.Context, *run.Run) run.Done {
				<-done
				return run.Done{Result: mcp.Result("fine")}
			})
			loud := statetest.Start(t, r, func(ctx context.Context, running *run.Run) run.Done {
				<-more
				err := running.Log().Append(ctx, partials.Chunk{Data: []byte("too late")})
				<-ctx.Done() // it is stopped
				return run.Done{Result: mcp.Result("fine"), Err: err}
			})
			quiet.Delivered()
			loud.Delivered()
			if _, err := s.db.w.db.Exec(c.end); err != nil {
				t.Fatal(err)
			}
			close(more)
			<-loud.Ended()
			close(done)
			<-quiet.Ended()
			for name, run := range map[string]*run.Run{"quiet": quiet, "loud": loud} {
				if task := run.Task(); task.Status != mcp.TaskFailed ||
					!strings.Contains(task.StatusMessage, c.says) || task.Outcome == nil {
					t.Errorf("%s: %s: %s", name, task.Status, task.StatusMessage)
				}
				if !strings.Contains(log.String(), run.ID()) {
					t.Errorf("%s: not told:\n%s", name, &log)
				}
			}
			var rows int
			if err := s.db.read.QueryRow("SELECT count(*) FROM log").Scan(&rows); err != nil || rows > 0 {
				t.Errorf("%d rows of output behind the end, %v", rows, err)
			}
		})
	}
}

// A lease that is lost costs the tasks that others have ended meanwhile, at once, and no others.
func TestLeaseIsLost(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, Options{Dir: dir})
	r := statetest.NewRunner(t, run.Options{State: s, Log: zerolog.Nop()})
	var runs []*run.Run
	for range 2 {
		run := statetest.Start(t, r, statetest.UntilDone)
		run.Deliver(func(ctx context.Context) { <-ctx.Done() })
		runs = append(runs, run)
	}
	if _, err := s.db.w.db.Exec(`UPDATE task SET keeper = NULL, status = 'failed', outcome = CAST('{"error":{"code":1,"message":"gone"}}' AS BLOB) WHERE id = ?`, runs[0].ID()); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(s.db.lease.path); err != nil {
		t.Fatal(err)
	}
	<-runs[0].Ended()
	if status := runs[1].Task().Status; status != mcp.TaskWorking {
		t.Errorf("the other one: %s", status)
	}
}

// A process says who it is as long as it has the state open, also after its lease was removed and made again.
func TestDescribed(t *testing.T) {
	t.Parallel()
	first := openStore(t, Options{Dir: t.TempDir()})
	second := openStore(t, Options{Dir: first.Dir()})
	first.Describe("first") // before it is open
	wants := func(want ...string) {
		t.Helper()
		got := first.Described()
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	wants()
	if err := errors.Join(first.Recover(), second.Recover()); err != nil {
		t.Fatal(err)
	}
	wants("first")
	second.Describe("second")
	wants("first", "second")
	if err := os.Remove(first.db.lease.path); err != nil {
		t.Fatal(err)
	}
	wants("second")
	for range 2 {
		if _, err := first.db.lease.retake(); err != nil {
			t.Fatal(err)
		}
		wants("first", "second")
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	wants("first")
}
