package tasks_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/statetest"
)

func TestMemory(t *testing.T) {
	statetest.Run(t, func(*testing.T) tasks.State { return tasks.NewMemory() })
}

func TestMemoryHidesWhatHasExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := tasks.NewMemory()
		short := statetest.Ended(statetest.Working("short"), mcp.TaskCompleted, "done")
		short.TTL = time.Minute
		statetest.Put(t, m, statetest.Working("mine"), short)
		if _, err := m.Open("local").Get(context.Background(), "short"); err != nil {
			t.Errorf("before its ttl is over: %v", err)
		}
		time.Sleep(time.Minute)
		if _, err := m.Open("local").Get(context.Background(), "short"); !errors.Is(err, tasks.ErrNotFound) {
			t.Errorf("an expired task: got %v, want ErrNotFound", err)
		}
		synctest.Wait()
		if m.Held() != 0 {
			t.Errorf("held %d bytes of it", m.Held())
		}
		if got := statetest.IDs(t, m, 10); !slices.Equal(got, []string{"mine"}) {
			t.Errorf("listed: %v", got)
		}
	})
}

func TestMemoryForgetsOldestEnded(t *testing.T) {
	m := tasks.NewMemory()
	running := statetest.Working("running")
	begun := statetest.Working("begun")
	begun.Variables = json.RawMessage(`{"` + tasks.AboveNote + `":"running"}`)
	statetest.Put(t, m, running, statetest.Ended(begun, mcp.TaskCompleted, "done"))
	big := &tasks.Outcome{Result: mcp.Result(strings.Repeat("x", tasks.MaxMemory/4))}
	for i := range 8 {
		task := statetest.Working(fmt.Sprint("ended", i))
		statetest.Put(t, m, task)
		task.Status, task.Outcome = mcp.TaskCompleted, big
		statetest.Put(t, m, task)
	}
	if m.Held() > tasks.MaxMemory {
		t.Errorf("held %d bytes, at most %d allowed", m.Held(), tasks.MaxMemory)
	}
	if got, want := statetest.IDs(t, m, 10),
		[]string{"running", "begun", "ended5", "ended6", "ended7"}; !slices.Equal(got, want) {
		t.Errorf("kept %v, want %v", got, want)
	}
}

// BenchmarkMemoryGrowth answers whether a task costs the same however many are stored.
func BenchmarkMemoryGrowth(b *testing.B) {
	for _, stored := range []int{10, 1000, 100_000} {
		b.Run(fmt.Sprint(stored), func(b *testing.B) {
			m := tasks.NewMemory()
			for i := range stored {
				_ = m.Open("local").Put(context.Background(), statetest.Working(fmt.Sprint("old", i)))
			}
			_, middle, _ := m.Open("local").List(context.Background(), tasks.OldestFirst, "", max(stored/2, 1))
			for b.Loop() {
				task := statetest.Working("new")
				_ = m.Open("local").Put(context.Background(), task)
				_, _ = m.Open("local").Get(context.Background(), "new")
				_, _, _ = m.Open("local").List(context.Background(), tasks.OldestFirst, middle, 10)
				_ = m.Open("local").Delete(context.Background(), "new")
			}
		})
	}
}
