package statetest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/files"
)

// RunLimits tests the limits of an owner with two states of one place. A limit also holds if both start tasks
// at the same moment.
func RunLimits(t *testing.T, open func(t *testing.T, limits tasks.Limits) (here, there tasks.State)) {
	t.Run("live and starts", func(t *testing.T) {
		here, there := open(t, tasks.Limits{MaxLive: 2, MaxStartsPerMinute: 3})
		one, two := Working("one"), Working("two")
		Put(t, here, one)
		Put(t, there, two)
		if err := here.Open(owner).Put(t.Context(), Working("three")); !errors.Is(err, tasks.ErrTooManyLive) {
			t.Errorf("a third: %v", err)
		}
		ending := Working("ending")
		ending.Ending = true
		Put(t, here, ending, Ended(ending, mcp.TaskCompleted, "done"))
		Put(t, here, Ended(one, mcp.TaskCompleted, "done"))
		foreign := Working("foreign")
		foreign.Owner = "other"
		Put(t, here, foreign)
		Put(t, there, Ended(two, mcp.TaskCompleted, "done"))
		if err := there.Open(owner).Put(t.Context(), Working("four")); !errors.Is(err, tasks.ErrTooManyStarts) {
			t.Errorf("a fourth: %v", err)
		}
	})
	t.Run("files", func(t *testing.T) { // the task that keeps another one's files counts for none
		here, there := open(t, tasks.Limits{MaxLive: 2, MaxStartsPerMinute: 3})
		all := []tasks.Task{Working("one"), Working("two"), Working("three")}
		for i, s := range []tasks.State{here, there} {
			Put(t, s, all[i])
			w := files.Create(s.Open(owner), all[i], 1<<20)
			f, err := w.Write(t.Context(), strings.NewReader("a file that is not complete yet"))
			if err != nil {
				t.Fatal(err)
			}
			f.Name = "dir/0"
			w.Keep(f)
			defer func() {
				if err := w.Close(t.Context()); err != nil {
					t.Error(err)
				}
			}()
		}
		if err := there.Open(owner).Put(t.Context(), all[2]); !errors.Is(err, tasks.ErrTooManyLive) {
			t.Errorf("a third: %v", err)
		}
		Put(t, here, Ended(all[0], mcp.TaskCompleted, "done"))
		Put(t, here, all[2])
		keep(t, here, all[2], []byte("a file"))
		Put(t, here, Ended(all[2], mcp.TaskCompleted, "done"))
		Put(t, there, Ended(all[1], mcp.TaskCompleted, "done"))
		if err := there.Open(owner).Put(t.Context(), Working("four")); !errors.Is(err, tasks.ErrTooManyStarts) {
			t.Errorf("a fourth: %v", err)
		}
	})
	t.Run("at once", func(t *testing.T) {
		here, there := open(t, tasks.Limits{MaxLive: 5})
		// Opening a state for forty tasks together is another test's.
		for i, s := range []tasks.State{here, there} {
			first := Working(fmt.Sprint("first", i))
			first.Ending = true
			Put(t, s, first, Ended(first, mcp.TaskCompleted, "done"))
		}
		var all sync.WaitGroup
		let := make(chan string, 40)
		for i := range 40 {
			all.Go(func() {
				err := []tasks.State{here, there}[i%2].Open(owner).Put(t.Context(),
					Working(fmt.Sprint("a", i)))
				if err == nil {
					let <- "in"
				} else if !errors.Is(err, tasks.ErrTooManyLive) {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if len(let) != 5 {
			t.Errorf("%d tasks were let in", len(let))
		}
	})
}
