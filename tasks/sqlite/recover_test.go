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

	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/statetest"
)

// A task that another process ends while this one is about to is left as it was ended, and is told there.
func TestSQLiteRecoversTooLate(t *testing.T) {
	dir := t.TempDir()
	gone, other := openStore(t, Options{Dir: dir}), openStore(t, Options{Dir: dir})
	var quicker func() // is called when the end is made, before it is stored
	late := openStore(t, Options{Dir: dir, Recovered: func(told *tasks.Task) { t.Errorf("told: %+v", told) },
		Now: func() time.Time {
			if quicker != nil {
				quicker()
			}
			return time.Now()
		}})
	statetest.Put(t, gone, statetest.Working("lost"))
	statetest.Get(t, other, "lost")
	statetest.Get(t, late, "lost")
	keeper := gone.db.lease.name
	late.db.stopSweeper()
	late.db.sweeper.Wait()
	gone.die()
	ended := statetest.Ended(statetest.Working("lost"), mcp.TaskFailed, "")
	outcome, err := tasks.EncodeOutcome(&ended)
	if err != nil {
		t.Fatal(err)
	}
	quicker = func() {
		quicker = nil
		if _, err := other.db.w.db.Exec("UPDATE task SET status = 'failed', message = 'quicker', outcome = ?, keeper = NULL WHERE id = 'lost'", outcome); err != nil {
			t.Error(err)
		}
	}
	if err := late.db.recover(keeper); err != nil || quicker != nil {
		t.Error(err)
	}
	if task := statetest.Get(t, late, "lost"); task.StatusMessage != "quicker" {
		t.Errorf("%+v", task)
	}
}

// The tasks of a process that is gone have failed, once, with what they wrote; those of a live one go on.
func TestSQLiteRecovers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	told := make(chan tasks.Task, 10)
	o := Options{Dir: dir, Recovered: func(t *tasks.Task) { told <- *t }}
	gone, live := openStore(t, o), openStore(t, o)
	lost, kept := statetest.Working("lost", "what it wrote\n"), statetest.Working("kept", "x")
	statetest.Put(t, gone, lost, statetest.Ended(statetest.Working("ended"), mcp.TaskCompleted,
		"whole result"))
	statetest.Put(t, live, kept)
	statetest.Eventually(t, func() bool { return statetest.Get(t, live, "lost").Log.Size() > 0 })
	gone.die()

	var stores []*State
	var all sync.WaitGroup
	for range 4 {
		s := openStore(t, o)
		stores = append(stores, s)
		all.Go(func() {
			if err := s.Recover(); err != nil {
				t.Error(err)
			}
			if task, err := s.Open("local").Get(context.Background(), "lost"); err != nil ||
				task.Status != mcp.TaskFailed {
				t.Errorf("lost: %s, %v", task.Status, err)
			}
		})
	}
	all.Wait()
	first := statetest.Get(t, live, "lost")
	if one := <-told; len(told) != 0 || one.ID != "lost" || !one.CreatedAt.Equal(first.CreatedAt) ||
		!one.UpdatedAt.Equal(first.UpdatedAt) || one.StatusMessage != first.StatusMessage {
		t.Errorf("%d more told, the first: %+v", len(told), one)
	}
	for _, s := range stores {
		task := statetest.Get(t, s, "lost")
		if !task.UpdatedAt.Equal(first.UpdatedAt) ||
			!strings.HasPrefix(task.StatusMessage, "the runnel that ran this task is gone") {
			t.Errorf("ended twice: %v %q, %v", task.UpdatedAt, task.StatusMessage, first.UpdatedAt)
		}
		if got := statetest.ReadAll(t, task.Log); got != "what it wrote\n" {
			t.Errorf("its log: %q", got)
		}
		if text, _ := mcp.TextOf(task.Outcome.Result.Content[0]); text != "what it wrote\n" ||
			!task.Outcome.Result.IsError {
			t.Errorf("its result: %s", task.Outcome.Result.Content)
		}
		if page := statetest.Page(t, task.Segments, 0, 1000); page.Count != 2 || !page.Complete ||
			!page.IsError {
			t.Errorf("its segments: %+v", page)
		}
		if task := statetest.Get(t, s, "kept"); task.Status != mcp.TaskWorking || task.Outcome != nil {
			t.Errorf("the task of a live process: %+v", task)
		}
		if task := statetest.Get(t, s, "ended"); task.Status != mcp.TaskCompleted {
			t.Errorf("a task that had ended: %+v", task)
		}
	}
	statetest.Put(t, live, statetest.Ended(kept, mcp.TaskCompleted, "fine"))
	if task := statetest.Get(t, stores[0], "kept"); task.Status != mcp.TaskCompleted {
		t.Errorf("kept: %s", task.Status)
	}
	// A process that lists them sees it, too.
	other := openStore(t, Options{Dir: dir})
	statetest.Put(t, other, statetest.Working("listed"))
	other.die()
	list, _, err := live.Open("local").List(t.Context(), tasks.OldestFirst, "", 10)
	if i := slices.IndexFunc(list, func(t tasks.Task) bool { return t.ID == "listed" }); err != nil ||
		i < 0 || list[i].Status != mcp.TaskFailed {
		t.Errorf("listed: %+v, %v", list, err)
	}
	// The other side of it: an end that comes after others have ended the task is no end.
	stale := openStore(t, Options{Dir: dir})
	late := statetest.Working("late")
	statetest.Put(t, stale, late)
	stale.db.lease.release(true)
	awaitFree(stale.db.lease)
	if task := statetest.Get(t, live, "late"); task.Status != mcp.TaskFailed {
		t.Errorf("late: %s", task.Status)
	}
	if err := stale.Open("local").Put(t.Context(), statetest.Ended(late, mcp.TaskCompleted, "too late")); !errors.Is(err,
		tasks.ErrFenced) {
		t.Errorf("an end after the end: %v", err)
	}
	if task := statetest.Get(t, live, "late"); task.Status != mcp.TaskFailed {
		t.Errorf("late: %s", task.Status)
	}
}

// A process that looks for the lease of one that is gone is not misled by another that removes it at the same
// time.
func TestLeaseWhileItIsRemoved(t *testing.T) {
	dir := t.TempDir()
	for range 300 {
		l, err := takeLease(dir)
		if err != nil {
			t.Fatal(err)
		}
		_ = l.file.Close()
		var all sync.WaitGroup
		all.Go(func() { dropDeadLeases(dir, keepsNone) })
		for range 3 {
			all.Go(func() {
				for range 10 {
					if leaseHeld(dir, l.name) {
						t.Error("a lease that is being removed counts as held")
					}
				}
			})
		}
		all.Wait()
	}
}

func TestLeases(t *testing.T) {
	dir := t.TempDir()
	var all sync.WaitGroup
	for range 8 { // takers and sweepers at once: nobody loses a lease that is held
		all.Go(func() {
			for range 50 {
				l, err := takeLease(dir)
				if err != nil {
					t.Error(err)
					return
				}
				dropDeadLeases(dir, keepsNone)
				if !leaseHeld(dir, l.name) {
					t.Error("a lease that is held counts as gone")
				}
				l.release(false)
				if leaseHeld(dir, l.name) {
					t.Error("a lease that was released counts as held")
				}
			}
		})
	}
	all.Wait()
	dead, err := takeLease(dir)
	if err != nil {
		t.Fatal(err)
	}
	_ = dead.file.Close()
	dropDeadLeases(dir, keepsNone)
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func keepsNone(string) bool { return false }
