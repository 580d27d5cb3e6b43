package tasks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"runnel/rpc/mcp"
)

func put(t *testing.T, m Store, tasks ...Task) {
	t.Helper()
	for _, task := range tasks {
		if err := m.Put(context.Background(), task); err != nil {
			t.Fatal(err)
		}
	}
}

func working(id string) Task {
	return Task{ID: id, Owner: "local", Status: mcp.TaskWorking, CreatedAt: time.Now(), TTL: time.Hour}
}

// ids are those of the tasks of owner local, in pages of n.
func ids(t *testing.T, s Store, n int) []string {
	t.Helper()
	var all []string
	for cursor := ""; ; {
		page, next, err := s.List(context.Background(), "local", cursor, n)
		if err != nil {
			t.Fatal(err)
		}
		for _, task := range page {
			all = append(all, task.ID)
		}
		if next == "" {
			return all
		}
		if len(page) != n {
			t.Fatalf("a page that is not the last has %d tasks, want %d", len(page), n)
		}
		cursor = next
	}
}

// Pages of any size show an owner's tasks once and in order, in every store.
func TestPages(t *testing.T) {
	for name, s := range map[string]Store{"memory": NewMemory(), "SQLite": openStore(t, SQLiteOptions{})} {
		t.Run(name, func(t *testing.T) {
			var want []string
			for i := range 25 {
				task := working(fmt.Sprint("task", i))
				if i%5 == 4 {
					task.Owner = "other"
				} else {
					want = append(want, task.ID)
				}
				put(t, s, task)
			}
			for n := 1; n <= 26; n++ {
				if got := ids(t, s, n); !slices.Equal(got, want) {
					t.Fatalf("pages of %d: got %v, want %v", n, got, want)
				}
			}
			for i := range 20 {
				if err := s.Delete(t.Context(), fmt.Sprint("task", i)); err != nil {
					t.Fatal(err)
				}
			}
			if got, want := ids(t, s, 2), []string{"task20", "task21", "task22", "task23"}; !slices.Equal(got, want) {
				t.Fatalf("after deletions: got %v, want %v", got, want)
			}
			for _, cursor := range []string{"!", "-1", "zzzz"} {
				if _, _, err := s.List(t.Context(), "local", cursor, 1); !errors.Is(err, ErrCursor) {
					t.Errorf("cursor %q: got %v, want ErrCursor", cursor, err)
				}
			}
		})
	}
}

func TestMemoryHidesForeignAndExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory()
		short := ended(logged("short"), mcp.TaskCompleted, "done")
		short.TTL = time.Minute
		put(t, m, working("mine"), short)
		if _, err := m.Get(context.Background(), "other", "mine"); !errors.Is(err, ErrNotFound) {
			t.Errorf("a foreign task: got %v, want ErrNotFound", err)
		}
		if _, err := m.Get(context.Background(), "local", "short"); err != nil {
			t.Errorf("before its ttl is over: %v", err)
		}
		time.Sleep(time.Minute)
		if _, err := m.Get(context.Background(), "local", "short"); !errors.Is(err, ErrNotFound) {
			t.Errorf("an expired task: got %v, want ErrNotFound", err)
		}
		if got := ids(t, m, 10); !slices.Equal(got, []string{"mine"}) {
			t.Errorf("listed: %v", got)
		}
	})
}

func TestMemoryForgetsOldestEnded(t *testing.T) {
	m := NewMemory()
	running := working("running")
	put(t, m, running)
	big := &Outcome{Result: mcp.Result(strings.Repeat("x", maxMemory/4))}
	for i := range 8 {
		task := working(fmt.Sprint("ended", i))
		put(t, m, task)
		task.Status, task.Outcome = mcp.TaskCompleted, big
		put(t, m, task)
	}
	if m.held > maxMemory {
		t.Errorf("held %d bytes, at most %d allowed", m.held, maxMemory)
	}
	if got, want := ids(t, m, 10), []string{"running", "ended5", "ended6", "ended7"}; !slices.Equal(got, want) {
		t.Errorf("kept %v, want %v", got, want)
	}
}

// BenchmarkMemoryGrowth answers whether a task costs the same however many are stored.
func BenchmarkMemoryGrowth(b *testing.B) {
	for _, stored := range []int{10, 1000, 100_000} {
		b.Run(fmt.Sprint(stored), func(b *testing.B) {
			m := NewMemory()
			for i := range stored {
				_ = m.Put(context.Background(), working(fmt.Sprint("old", i)))
			}
			_, middle, _ := m.List(context.Background(), "local", "", max(stored/2, 1))
			for b.Loop() {
				task := working("new")
				_ = m.Put(context.Background(), task)
				_, _ = m.Get(context.Background(), "local", "new")
				_, _, _ = m.List(context.Background(), "local", middle, 10)
				_ = m.Delete(context.Background(), "new")
			}
		})
	}
}
