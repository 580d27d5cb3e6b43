package tasks

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"runnel/rpc/mcp"
)

// endless stores no end of a task.
type endless struct{ *Memory }

func (s endless) Put(ctx context.Context, t Task) error {
	if t.Status.Terminal() {
		return errors.New("no room")
	}
	return s.Memory.Put(ctx, t)
}

// An end that cannot be stored is waited for until its task has expired, and no longer: a supervisor would never end.
func TestSettledWhenExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(t, Options{Store: endless{NewMemory()}, TTL: 2*settleRetry + time.Second})
		s := start(t, r, func(context.Context, *Run) (*mcp.CallToolResult, string, error) {
			return mcp.Result("fine"), "", nil
		})
		s.Delivered()
		<-s.Ended()
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := r.Settled(ctx); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took < 2*settleRetry {
			t.Errorf("settled after %v, before the task has expired", took)
		}
		r.Close()
	})
}

// slowEnd takes its time to store the end of a task.
type slowEnd struct{ *Memory }

func (s slowEnd) Put(ctx context.Context, t Task) error {
	if t.Status.Terminal() {
		time.Sleep(time.Minute)
	}
	return s.Memory.Put(ctx, t)
}

// A task whose end is still being stored is waited for, and its tool is none that has not stopped.
func TestEndIsStoredSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		r := NewRunner(Options{Store: slowEnd{NewMemory()}, Log: zerolog.New(&log)})
		s := start(t, r, func(ctx context.Context, _ *Run) (*mcp.CallToolResult, string, error) {
			<-ctx.Done()
			return mcp.Result("stopped"), "", nil
		})
		s.Delivered()
		time.AfterFunc(time.Second, r.GiveUp)
		r.Close()
		if task, err := r.o.Store.Get(t.Context(), "local", s.ID()); err != nil || task.Status != mcp.TaskFailed {
			t.Errorf("stored as %s, %v", task.Status, err)
		}
		if strings.Contains(log.String(), "has not stopped") {
			t.Error(log.String())
		}
	})
}

// The end of a task waits for a process that holds the state, however long. When its runner is closed it waits no more.
func TestEndWaitsForTheState(t *testing.T) {
	s := openStore(t, SQLiteOptions{})
	var log counted
	r := NewRunner(Options{Store: s, Log: zerolog.New(&log), AskTimeout: time.Millisecond})
	end := make(chan struct{})
	begin := func() *started {
		run := start(t, r, func(context.Context, *Run) (*mcp.CallToolResult, string, error) {
			<-end
			return mcp.Result("fine"), "", nil
		})
		run.Delivered()
		return run
	}
	first := begin()
	impatient(t, s)
	letGo := hold(t, s.Dir())
	end <- struct{}{}
	eventually(t, func() bool { return log.lines.Load() == 2 })
	if _, err := r.Cancel(t.Context(), first.ID()); !errors.Is(err, ErrEnding) {
		t.Errorf("cancelled while its end waits: %v", err)
	}
	if task, err := r.Get(t.Context(), first.ID()); err != nil || task.Status != mcp.TaskWorking {
		t.Errorf("a task whose end waits is %s, %v", task.Status, err)
	}
	letGo()
	<-first.Ended()
	if task := get(t, s, first.ID()); task.Status != mcp.TaskCompleted || string(task.Outcome.Result.Content[0]) != string(mcp.Text("fine")) {
		t.Errorf("stored as %s: %v", task.Status, task.Outcome)
	}
	second := begin()
	letGo = hold(t, s.Dir())
	end <- struct{}{}
	told := log.lines.Load()
	eventually(t, func() bool { return log.lines.Load() > told })
	r.Close()
	if task := second.Task(); task.Status != mcp.TaskFailed {
		t.Errorf("a task whose end could not be stored is %s", task.Status)
	}
	letGo()
}

// blind is a shared store that cannot be read, as one on a full disk.
type blind struct {
	Shared
	task Task
}

func (s *blind) Put(context.Context, Task) error { return nil }

func (s *blind) Asked(context.Context) ([]string, error) { return nil, errors.New("no room") }

func (s *blind) Lost(context.Context) ([]string, error) { return nil, errors.New("no room") }

func (s *blind) Follow(context.Context, string, string) (Task, error) { return s.task, nil }

func (s *blind) Look(context.Context, *Task) error { return errors.New("no room") }

// A state that cannot be read for long is told once, and not with every look.
func TestLooksThatFailAreToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log counted
		r := NewRunner(Options{Store: &blind{task: logged("elsewhere")}, Log: zerolog.New(&log).Level(zerolog.WarnLevel)})
		start(t, r, untilDone).Delivered()
		if _, _, err := r.Follow(t.Context(), "elsewhere"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if n := log.lines.Load(); n != 2 {
			t.Errorf("%d lines, want one of who looks for cancelled tasks and one of who follows", n)
		}
		r.Close()
	})
}

// counted counts the lines that are logged.
type counted struct{ lines atomic.Int64 }

func (c *counted) Write(line []byte) (int, error) {
	c.lines.Add(1)
	return len(line), nil
}
