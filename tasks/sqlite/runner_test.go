package sqlite

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/run"
	"runnel/tasks/statetest"
)

// Tasks from before the clock was set back do not count until it has come to where it was.
func TestLimitWhenTheClockIsSetBack(t *testing.T) {
	s := openStore(t, Options{Limits: tasks.Limits{MaxStartsPerMinute: 1}})
	before := statetest.Working("before")
	before.CreatedAt = time.Now().Add(time.Hour)
	statetest.Put(t, s, before, statetest.Working("behind"))
	if err := s.Open("local").Put(t.Context(), statetest.Working("one too many")); err == nil {
		t.Error("a second task in a minute is stored")
	}
}

// The end of a task waits for a process that holds the state, however long. When its runner is closed it
// waits no more.
func TestEndWaitsForTheState(t *testing.T) {
	t.Parallel()
	s := openStore(t, Options{})
	var log counted
	r := run.NewRunner(run.Options{State: s, Log: zerolog.New(&log), AskTimeout: time.Millisecond})
	end := make(chan struct{})
	begin := func() *run.Run {
		run := statetest.Start(t, r, func(context.Context, *run.Run) run.Done {
			<-end
			return run.Done{Result: mcp.Result("fine")}
		})
		run.Delivered()
		return run
	}
	first := begin()
	impatient(t, s)
	letGo := hold(t, s.Dir())
	end <- struct{}{}
	statetest.Eventually(t, func() bool { return log.lines.Load() == 2 })
	if _, err := r.Cancel(t.Context(), first.ID()); !errors.Is(err, tasks.ErrEnding) {
		t.Errorf("cancelled while its end waits: %v", err)
	}
	if task, err := r.Get(t.Context(), first.ID()); err != nil || task.Status != mcp.TaskWorking {
		t.Errorf("a task whose end waits is %s, %v", task.Status, err)
	}
	letGo()
	<-first.Ended()
	if task := statetest.Get(t, s, first.ID()); task.Status != mcp.TaskCompleted ||
		string(task.Outcome.Result.Content[0]) != string(mcp.Text("fine")) {
		t.Errorf("stored as %s: %v", task.Status, task.Outcome)
	}
	second := begin()
	letGo = hold(t, s.Dir())
	end <- struct{}{}
	told := log.lines.Load()
	statetest.Eventually(t, func() bool { return log.lines.Load() > told })
	r.Close()
	if task := second.Task(); task.Status != mcp.TaskFailed {
		t.Errorf("a task whose end could not be stored is %s", task.Status)
	}
	letGo()
}

// A task that still runs can be seen, and cancelled, though its ttl is over: its runnel may not have woken
// yet.
func TestExpiredTaskThatRuns(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, Options{Dir: dir})
	here, there := statetest.NewRunner(t,
		run.Options{State: openStore(t, Options{Dir: dir}), AskTimeout: 20 * time.Second}),
		statetest.NewRunner(t, run.Options{State: s})
	running := statetest.Start(t, there, statetest.UntilDone)
	running.Deliver(func(ctx context.Context) { <-ctx.Done() })
	// The task looks as it does once the wall clock has passed its end.
	if _, err := s.db.w.db.Exec("UPDATE task SET expires = 1"); err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]*run.Runner{"here": here, "there": there} {
		task, err := r.Get(t.Context(), running.ID())
		if err != nil || task.Status != mcp.TaskWorking {
			t.Errorf("get %s: %s, %v", name, task.Status, err)
		}
		if list, _, err := r.List(t.Context(), "", 10); err != nil || len(list) != 1 {
			t.Errorf("list %s: %v, %v", name, list, err)
		}
	}
	if found, err := s.Open("local").(*store).Find(t.Context(), running.ID()[:8], 2); err != nil || len(found) != 1 {
		t.Errorf("found: %v, %v", found, err)
	}
	if task, err := here.Cancel(t.Context(), running.ID()); err != nil || task.Status != mcp.TaskCancelled {
		t.Errorf("cancelled: %s, %v", task.Status, err)
	}
	// It has ended, and is over.
	if _, err := here.Get(t.Context(), running.ID()); !errors.Is(err, tasks.ErrNotFound) {
		t.Errorf("when it has ended: %v", err)
	}
	<-running.Ended()
	if task := running.Task(); task.Status != mcp.TaskCancelled {
		t.Errorf("ended as %s", task.Status)
	}
}

// counted counts the lines that are logged.
type counted struct{ lines atomic.Int64 }

func (c *counted) Write(line []byte) (int, error) {
	c.lines.Add(1)
	return len(line), nil
}
