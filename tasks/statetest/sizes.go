package statetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/files"
	"runnel/tasks/run"
)

// sized returns how much of something a test does: more if RUNNEL_TEST_STATE_LONG is set (make states).
func sized(short, long int) int {
	if os.Getenv("RUNNEL_TEST_STATE_LONG") != "" {
		return long
	}
	return short
}

// Output of any length is followed in order, from any position, and nothing comes twice.
func readFromAnywhere(t *testing.T, here, there tasks.State) {
	a, b := NewRunner(t, run.Options{State: here, Owner: owner}),
		NewRunner(t, run.Options{State: there, Owner: owner})
	const line = 64 << 10
	lines := sized(100, 16<<10) // 6 MiB, 1 GiB
	text := func(i int) string { return fmt.Sprintf("%08d%s\n", i, strings.Repeat("x", line-9)) }
	began := make(chan struct{})
	run := StartDelivered(t, a, func(ctx context.Context, task *run.Run) run.Done {
		<-began
		for i := range lines {
			if err := task.Log().Append(ctx, partials.Chunk{Data: []byte(text(i))}); err != nil {
				t.Errorf("line %d is not taken: %v", i, err)
				return run.Done{Err: err}
			}
		}
		return run.Done{Result: mcp.Result("done")}
	})
	view, release, err := b.Follow(t.Context(), run.ID())
	if err != nil || view == nil {
		t.Fatal(err)
	}
	defer release()
	close(began)
	var all sync.WaitGroup
	for _, from := range []int{0, 1, lines / 3, lines - 1} {
		all.Go(func() {
			for pos := int64(from) * line; pos < int64(lines)*line; {
				if err := view.Log().Grown(t.Context(), pos); err != nil {
					t.Errorf("from line %d at %d: %v", from, pos, err)
					return
				}
				batch, next, err := readAt(view.Log(), pos, line)
				if err != nil || batch.Lost {
					t.Errorf("from line %d at %d: lost %t, %v", from, pos, batch.Lost, err)
					return
				}
				for _, c := range batch.Chunks() {
					if i := pos / line; pos%line == 0 && len(c.Data) >= 8 &&
						string(c.Data[:8]) != fmt.Sprintf("%08d", i) {
						t.Errorf("line %d begins with %s", i, c.Data[:8])
						return
					}
					pos += int64(len(c.Data))
				}
				if pos != next {
					t.Errorf("from line %d: at %d, not at %d", from, pos, next)
					return
				}
			}
		})
	}
	all.Wait()
	<-view.Ended()
	if size := Get(t, there, run.ID()).Log.Size(); size != int64(lines)*line {
		t.Errorf("%d bytes are stored", size)
	}
}

// Numbers that were given to segments stay, even those that were given after all output was stored.
func numbersStay(t *testing.T, here, there tasks.State) {
	task := Working("a")
	Put(t, here, task)
	for i := range 10 {
		if err := task.Log.Append(t.Context(),
			partials.Chunk{Data: []byte(fmt.Sprintf("line %d\n", i))}); err != nil {
			t.Fatal(err)
		}
		if i < 5 {
			Page(t, task.Segments, int64(i), 1)
		}
	}
	Eventually(t, func() bool { return Get(t, there, "a").Log.Size() == task.Log.Size() })
	Page(t, task.Segments, 0, 1<<20)
	given := task.Segments.Given(0, task.Log.Size())
	Put(t, here, Ended(task, mcp.TaskCompleted, "done"))
	got := Get(t, there, "a")
	if stored := got.Segments.Given(0, got.Log.Size()); len(given) == 0 || !slices.Equal(stored, given) {
		t.Errorf("given %v, stored %v", given, stored)
	}
}

// A result of any size comes back whole.
func bigResult(t *testing.T, here, there tasks.State) {
	task := Working("a")
	Put(t, here, task)
	text := strings.Repeat("0123456789", sized(300_000, 6_000_000))
	Put(t, here, Ended(task, mcp.TaskCompleted, text))
	got := Get(t, there, "a")
	if got.Outcome.Result == nil || !strings.Contains(string(got.Outcome.Result.Content[0]), text) {
		t.Error("the result is not what was stored")
	}
	begun := time.Now()
	if _, err := there.Open(owner).Head(t.Context(), "a"); err != nil {
		t.Error(err)
	}
	t.Logf("its head was read in %v", time.Since(begun))
}

// Many tasks are listed in order, and the last one is found as quickly as the first.
func manyTasks(t *testing.T, here, there tasks.State) {
	n := sized(500, 100_000)
	var want []string
	begun := time.Now()
	for i := range n {
		task := Working(fmt.Sprintf("task%06d", i))
		want = append(want, task.ID)
		if err := here.Open(owner).Put(t.Context(), task); err != nil {
			t.Fatal(err)
		}
		if err := here.Open(owner).Put(t.Context(), Ended(task, mcp.TaskCompleted, "done")); err != nil {
			t.Fatal(err)
		}
	}
	stored := time.Since(begun)
	begun = time.Now()
	if got := IDs(t, there, 100); !slices.Equal(got, want) {
		t.Errorf("%d tasks are listed", len(got))
	}
	listed := time.Since(begun)
	begun = time.Now()
	Get(t, there, want[n-1])
	t.Logf("%d tasks: stored in %v, listed in %v, the last one found in %v", n, stored, listed,
		time.Since(begun))
}

// A task whose ttl is over is gone, and so is its place in lists.
func expires(t *testing.T, here, there tasks.State) {
	task := Working("a", "line\n")
	task.TTL = time.Second
	Put(t, here, task, Working("b"))
	Put(t, here, Ended(task, mcp.TaskCompleted, "done"))
	if _, err := there.Open(owner).Get(t.Context(), "a"); err != nil &&
		time.Since(task.CreatedAt) < task.TTL {
		t.Error(err)
	}
	Eventually(t, func() bool { return slices.Equal(IDs(t, there, 10), []string{"b"}) })
	if _, err := there.Open(owner).Head(t.Context(), "a"); err == nil {
		t.Error("it is still found")
	}
}

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
