package run

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
	"runnel/tasks"
	"runnel/tasks/statetest/fake"
)

// endless stores no end of a task.
type endless struct{ fake.Alone }

func (s endless) Put(ctx context.Context, t tasks.Task) error {
	if t.Status.Terminal() {
		return errors.New("no room")
	}
	return s.Alone.Put(ctx, t)
}

// An end that cannot be stored is waited for until its task has expired, and no longer: a supervisor would
// never end.
func TestSettledWhenExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(t, Options{State: fake.State(endless{fake.Memory()}), TTL: 2*retryInterval + time.Second})
		s := start(t, r, func(context.Context, *Run) Done {
			return Done{Result: mcp.Result("fine")}
		})
		s.Delivered()
		<-s.Ended()
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := s.Settled(ctx); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took < 2*retryInterval {
			t.Errorf("settled after %v, before the task has expired", took)
		}
		r.Close()
	})
}

// full stores no end of a task while it is full.
type full struct {
	fake.Alone
	full atomic.Bool
}

func (s *full) Put(ctx context.Context, t tasks.Task) error {
	if t.Status.Terminal() && s.full.Load() {
		return errors.New("no room")
	}
	return s.Alone.Put(ctx, t)
}

// A client was told of a cancellation that could not be stored: it is stored when there is room, at the
// latest when runnel ends.
func TestUnstoredEndIsTriedAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		state := &full{Alone: fake.Memory()}
		state.full.Store(true)
		r := newRunner(t, Options{State: fake.State(state)})
		s := start(t, r, untilDone)
		s.Delivered()
		if !s.Cancel("enough") || s.Task().Status != mcp.TaskCancelled {
			t.Fatalf("it is %s", s.Task().Status)
		}
		state.full.Store(false)
		r.Close()
		if task, err := state.Get(t.Context(), s.ID()); err != nil ||
			task.Status != mcp.TaskCancelled {
			t.Errorf("stored as %s, %v", task.Status, err)
		}
	})
}

// fullOnce does not store the first end of a task.
type fullOnce struct {
	fake.Alone
	refused atomic.Bool
}

func (s *fullOnce) Put(ctx context.Context, t tasks.Task) error {
	if t.Status.Terminal() && !s.refused.Swap(true) {
		return errors.New("no room")
	}
	return s.Alone.Put(ctx, t)
}

// The end of a task that only Close stops has its last try, too.
func TestUnstoredEndOfCloseIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		state := &fullOnce{Alone: fake.Memory()}
		r := newRunner(t, Options{State: fake.State(state)})
		s := start(t, r, untilDone)
		s.Delivered()
		r.Close()
		if task, err := state.Get(t.Context(), s.ID()); err != nil || task.Status != mcp.TaskFailed {
			t.Errorf("stored as %s, %v", task.Status, err)
		}
	})
}

// The record of a task whose end is not stored says that it is working. Nobody is told so, however long it
// has been over.
func TestUnstoredEndOutlivesTheTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		state := &full{Alone: fake.Memory()}
		state.full.Store(true)
		r := newRunner(t, Options{State: fake.State(state), TTL: 2 * time.Second})
		s := start(t, r, func(context.Context, *Run) Done { return Done{Result: mcp.Result("fine")} })
		s.Delivered()
		<-s.Ended()
		time.Sleep(3 * retryInterval)
		if task, err := r.Get(t.Context(), s.ID()); err == nil && !task.Status.Terminal() {
			t.Errorf("it is %s again", task.Status)
		}
		state.full.Store(false)
		time.Sleep(retryInterval + time.Second)
		if task, err := state.Get(t.Context(), s.ID()); !errors.Is(err, tasks.ErrNotFound) {
			t.Errorf("stored as %s, %v", task.Status, err)
		}
		r.Close()
	})
}

// slowEnd takes its time to store the end of a task.
type slowEnd struct{ fake.Alone }

func (s slowEnd) Put(ctx context.Context, t tasks.Task) error {
	if t.Status.Terminal() {
		time.Sleep(time.Minute)
	}
	return s.Alone.Put(ctx, t)
}

// A task whose end is still being stored is waited for, and its tool is none that has not stopped.
func TestEndIsStoredSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		r := NewRunner(Options{State: fake.State(slowEnd{fake.Memory()}), Log: zerolog.New(&log)})
		s := start(t, r, func(ctx context.Context, _ *Run) Done {
			<-ctx.Done()
			return Done{Result: mcp.Result("stopped")}
		})
		s.Delivered()
		time.AfterFunc(time.Second, r.GiveUp)
		r.Close()
		if task, err := r.o.State.Open("local").Get(t.Context(), s.ID()); err != nil ||
			task.Status != mcp.TaskFailed {
			t.Errorf("stored as %s, %v", task.Status, err)
		}
		if strings.Contains(log.String(), "has not stopped") {
			t.Error(log.String())
		}
	})
}

// busy refuses the end of a task, at once, for a minute.
type busy struct {
	fake.Alone
	until time.Time
	tries atomic.Int64
}

func (s *busy) Put(ctx context.Context, t tasks.Task) error {
	if t.Status.Terminal() && time.Now().Before(s.until) && s.tries.Add(1) < 10_000 {
		return tasks.ErrBusy
	}
	return s.Alone.Put(ctx, t)
}

// A state that is busy gets the end of a task again, but is not called without a pause.
func TestBusyStateIsNotCalledWithoutAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		state := &busy{Alone: fake.Memory(), until: time.Now().Add(time.Minute)}
		r := newRunner(t, Options{State: fake.State(state)})
		s := start(t, r, func(context.Context, *Run) Done { return Done{Result: mcp.Result("fine")} })
		s.Delivered()
		<-s.Ended()
		if n := state.tries.Load(); n < 10 || n > 1000 {
			t.Errorf("%d tries in a minute", n)
		}
		if task, err := state.Get(t.Context(), s.ID()); err != nil ||
			task.Status != mcp.TaskCompleted {
			t.Errorf("stored as %s, %v", task.Status, err)
		}
		r.Close()
	})
}
