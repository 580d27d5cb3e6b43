package tasks

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"runnel/rpc/mcp"
)

// wallClock is a wall clock that can go on while the monotonic one stands still, as when a machine sleeps.
type wallClock struct{ slept atomic.Int64 }

func (c *wallClock) now() time.Time        { return time.Now().Add(time.Duration(c.slept.Load())) }
func (c *wallClock) sleep(d time.Duration) { c.slept.Add(int64(d)) }

// Tasks whose ttl has passed in a sleep are stopped when the machine wakes, whoever runs them.
func TestTTLPassesInSleep(t *testing.T) {
	for name, store := range map[string]func(*wallClock) Store{
		"memory": func(c *wallClock) Store { m := NewMemory(); m.now = c.now; return m },
		"sqlite": func(c *wallClock) Store { return openStore(t, SQLiteOptions{now: c.now}) },
	} {
		t.Run(name, func(t *testing.T) {
			var clock wallClock
			r := newRunner(t, Options{Store: store(&clock), TTL: time.Hour, now: clock.now})
			run := start(t, r, untilDone)
			run.Deliver(delivered)
			if shared, ok := r.o.Store.(Shared); ok { // the supervisor of a detached one, too
				put(t, shared, working("detached"))
				other := newRunner(t, Options{Store: openStore(t, SQLiteOptions{Dir: shared.(*SQLite).Dir(), now: clock.now}), now: clock.now})
				taken, err := other.Take(t.Context(), "detached", []byte("{}"), Spec{Work: untilDone})
				if err != nil {
					t.Fatal(err)
				}
				taken.Deliver(delivered)
				defer func() {
					select {
					case <-taken.Ended():
					case <-time.After(20 * wakeInterval):
						t.Error("the supervisor runs on")
					}
				}()
			}
			clock.sleep(2 * time.Hour)
			select {
			case <-run.Ended():
			case <-time.After(20 * wakeInterval):
				t.Fatal("it runs on")
			}
			if task := run.Task(); task.Status != mcp.TaskFailed || task.StatusMessage != expiredMessage {
				t.Errorf("ended as %s: %s", task.Status, task.StatusMessage)
			}
			if _, err := r.Get(t.Context(), run.ID()); !errors.Is(err, ErrNotFound) {
				t.Errorf("get: %v", err)
			}
			if _, err := r.Await(t.Context(), run.ID()); !errors.Is(err, ErrNotFound) {
				t.Errorf("await: %v", err)
			}
		})
	}
}

// What still runs can be seen, and cancelled, though its ttl is over: its runnel may not have woken yet.
func TestExpiredTaskThatRuns(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, SQLiteOptions{Dir: dir})
	here, there := newRunner(t, Options{Store: openStore(t, SQLiteOptions{Dir: dir}), AskTimeout: 20 * time.Second}), newRunner(t, Options{Store: s})
	run := start(t, there, untilDone)
	run.Deliver(func(ctx context.Context) { <-ctx.Done() })
	if _, err := s.db.w.db.Exec("UPDATE task SET expires = 1"); err != nil { // as a wall clock that has passed it makes it look
		t.Fatal(err)
	}
	for name, r := range map[string]*Runner{"here": here, "there": there} {
		task, err := r.Get(t.Context(), run.ID())
		if err != nil || task.Status != mcp.TaskWorking {
			t.Errorf("get %s: %s, %v", name, task.Status, err)
		}
		if list, _, err := r.List(t.Context(), "", 10); err != nil || len(list) != 1 {
			t.Errorf("list %s: %v, %v", name, list, err)
		}
	}
	if found, err := s.Find(t.Context(), "local", run.ID()[:8], 2); err != nil || len(found) != 1 {
		t.Errorf("found: %v, %v", found, err)
	}
	if task, err := here.Cancel(t.Context(), run.ID()); err != nil || task.Status != mcp.TaskCancelled {
		t.Errorf("cancelled: %s, %v", task.Status, err)
	}
	if _, err := here.Get(t.Context(), run.ID()); !errors.Is(err, ErrNotFound) { // it has ended, and is over
		t.Errorf("when it has ended: %v", err)
	}
	<-run.Ended()
	if task := run.Task(); task.Status != mcp.TaskCancelled {
		t.Errorf("ended as %s", task.Status)
	}
}

func TestAlarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var clock wallClock
		var rang atomic.Int32
		ring := func() { rang.Add(1) }
		setAlarm(clock.now, clock.now().Add(time.Hour), ring)
		setAlarm(clock.now, clock.now().Add(time.Hour), ring).stop()
		setAlarm(clock.now, clock.now(), ring)
		synctest.Wait()
		if n := rang.Load(); n != 1 {
			t.Errorf("%d rang at once, want 1", n)
		}
		time.Sleep(30 * time.Minute)
		if n := rang.Load(); n != 1 {
			t.Errorf("%d rang before their time", n)
		}
		clock.sleep(31 * time.Minute)
		time.Sleep(wakeInterval)
		synctest.Wait()
		if n := rang.Load(); n != 2 {
			t.Errorf("%d rang, want 2", n)
		}
	})
}
