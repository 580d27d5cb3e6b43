// Package statetest is what every state of tasks must do, as one suite that each of them runs, and what tests of states are made with.
package statetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"runnel/rpc/mcp"
	"runnel/tasks"
)

// Run holds the states that open makes, each empty, against the contract of tasks.Store.
func Run(t *testing.T, open func(t *testing.T) tasks.State) {
	for name, test := range map[string]func(*testing.T, tasks.State){
		"pages":                     pages,
		"hides foreign and expired": hides,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

// Pages of any size show an owner's tasks once and in order.
func pages(t *testing.T, s tasks.State) {
	var want []string
	for i := range 25 {
		task := Working(fmt.Sprint("task", i))
		if i%5 == 4 {
			task.Owner = "other"
		} else {
			want = append(want, task.ID)
		}
		Put(t, s, task)
	}
	for n := 1; n <= 26; n++ {
		if got := IDs(t, s, n); !slices.Equal(got, want) {
			t.Fatalf("pages of %d: got %v, want %v", n, got, want)
		}
	}
	for i := range 20 {
		if err := s.Delete(t.Context(), owner, fmt.Sprint("task", i)); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := IDs(t, s, 2), []string{"task20", "task21", "task22", "task23"}; !slices.Equal(got, want) {
		t.Fatalf("after deletions: got %v, want %v", got, want)
	}
	for _, cursor := range []string{"!", "-1", "zzzz"} {
		if _, _, err := s.List(t.Context(), "local", cursor, 1); !errors.Is(err, tasks.ErrCursor) {
			t.Errorf("cursor %q: got %v, want ErrCursor", cursor, err)
		}
	}
}

// What is somebody else's, expired or unknown is not found.
func hides(t *testing.T, s tasks.State) {
	old := Ended(Logged("old"), mcp.TaskCompleted, "done")
	old.CreatedAt = time.Now().Add(-time.Hour)
	Put(t, s, Working("mine"), old)
	for _, c := range []struct{ owner, id string }{{"other", "mine"}, {"local", "old"}, {"local", "unknown"}} {
		if _, err := s.Get(t.Context(), c.owner, c.id); !errors.Is(err, tasks.ErrNotFound) {
			t.Errorf("%v: got %v, want ErrNotFound", c, err)
		}
	}
	if got := IDs(t, s, 10); !slices.Equal(got, []string{"mine"}) {
		t.Errorf("listed: %v", got)
	}
}
