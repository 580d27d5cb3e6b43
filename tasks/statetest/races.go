package statetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/tasks"
)

// A task that one process ends while another one takes and ends it has one end, and only one of the two
// processes succeeds.
func racesForTheEnd(t *testing.T, here, there tasks.State) {
	taken := 0
	for i := range sized(100, 10_000) {
		id := fmt.Sprint("a", i)
		task := Working(id)
		Put(t, here, task)
		var all sync.WaitGroup
		var ended [2]error
		all.Go(func() {
			for range i % 4 { // so that either may be the first
				_, _ = here.Open(owner).Head(t.Context(), id)
			}
			ended[0] = here.Open(owner).Put(t.Context(), Ended(task, mcp.TaskCompleted, "here"))
		})
		all.Go(func() {
			t2, err := Shared(there).Take(t.Context(), Working(id), []byte(`{"by":"a test"}`))
			if ended[1] = err; err == nil {
				taken++
				ended[1] = there.Open(owner).Put(t.Context(), Ended(t2, mcp.TaskFailed, "there"))
			}
		})
		all.Wait()
		want := mcp.TaskCompleted
		if ended[0] != nil {
			want = mcp.TaskFailed
		}
		if (ended[0] == nil) == (ended[1] == nil) {
			t.Fatalf("%s: here %v, there %v", id, ended[0], ended[1])
		}
		for _, s := range []tasks.State{here, there} {
			if got := Get(t, s, id); got.Status != want {
				t.Fatalf("%s is %s, not %s", id, got.Status, want)
			}
		}
		if err := there.Open(owner).Delete(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d taken", taken)
}

// A task that has been taken is refused to its former keeper, and so is its output.
func formerKeeper(t *testing.T, here, there tasks.State) {
	task := Working("a", "before\n")
	Put(t, here, task)
	Eventually(t, func() bool { return Get(t, there, "a").Log.Size() == 7 })
	if _, err := Shared(there).Take(t.Context(), Working("a"), []byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	if err := task.Log.Append(t.Context(), partials.Chunk{Data: []byte("after\n")}); err != nil {
		t.Fatal(err)
	}
	asking := task
	asking.Status = mcp.TaskInputRequired
	if err := here.Open(owner).Put(t.Context(), asking); !errors.Is(err, tasks.ErrFenced) {
		t.Errorf("a question: %v", err)
	}
	if err := here.Open(owner).Put(t.Context(), Ended(task, mcp.TaskCompleted, "done")); !errors.Is(err,
		tasks.ErrFenced) {
		t.Errorf("an end: %v", err)
	}
	if got := Get(t, here, "a"); got.Status != mcp.TaskWorking || got.Log.Size() != 7 {
		t.Errorf("%s, %d bytes of output", got.Status, got.Log.Size())
	}
}

// A process that another one has taken a task from notes nothing more of its work, nor closes a question that
// the other one may have asked again. What followers may set it can still set.
func formerKeepersNotes(t *testing.T, here, there tasks.State) {
	Put(t, here, Working("a"))
	own := map[string]string{"work": `{"runnel/work/one":1}`, "resume": `{"runnel/resume":"tool@1"}`,
		"question": `{"runnel/question/question-for-ok":null,"runnel/answer/question-for-ok":null}`}
	for name, patch := range own {
		if _, err := here.Open(owner).SetVariables(t.Context(), "a", []byte(patch)); err != nil {
			t.Errorf("%s before: %v", name, err)
		}
	}
	if _, err := here.Open(owner).SetVariables(t.Context(), "a", []byte(`{"runnel/resume":null}`)); err != nil {
		t.Error(err)
	}
	if _, err := Shared(there).Take(t.Context(), Working("a"), []byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	for name, patch := range own {
		if _, err := here.Open(owner).SetVariables(t.Context(), "a", []byte(patch)); !errors.Is(err, tasks.ErrFenced) {
			t.Errorf("%s of the keeper before: %v", name, err)
		}
		if _, err := there.Open(owner).SetVariables(t.Context(), "a", []byte(patch)); err != nil {
			t.Errorf("%s of the keeper: %v", name, err)
		}
	}
	if _, err := here.Open(owner).SetVariables(t.Context(), "a",
		[]byte(`{"mine":1,"runnel/answer/question-for-ok":{"result":{"action":"accept"}}}`)); err != nil {
		t.Errorf("an answer: %v", err)
	}
}

// A task can be seen everywhere when Put has returned; its end is not seen before its outcome and all of its
// output.
func seenWhole(t *testing.T, here, there tasks.State) {
	const output = "one\ntwo\nthree\n"
	for i := range sized(50, 1000) {
		id := fmt.Sprint("a", i)
		task := Working(id)
		Put(t, here, task)
		if got := Get(t, there, id); got.Status != mcp.TaskWorking {
			t.Fatalf("%+v", got)
		}
		seen := make(chan error, 1)
		go func() {
			for {
				got, err := there.Open(owner).Get(context.WithoutCancel(t.Context()), id)
				switch {
				case err == nil && !got.Status.Terminal():
					continue
				case err == nil && (got.Outcome == nil || got.Outcome.Result == nil ||
					got.Log.Size() != int64(len(output))):
					err = fmt.Errorf("it has ended with %+v after %d bytes", got.Outcome, got.Log.Size())
				}
				seen <- err
				return
			}
		}()
		for line := range strings.Lines(output) {
			if err := task.Log.Append(t.Context(), partials.Chunk{Data: []byte(line)}); err != nil {
				t.Fatal(err)
			}
		}
		Put(t, here, Ended(task, mcp.TaskCompleted, "done"))
		if err := <-seen; err != nil {
			t.Fatalf("%s: %v", id, err)
		}
	}
}

// Variables that were set are kept when the task ends, even if both happen at once; later ones are refused.
func variablesAtTheEnd(t *testing.T, here, there tasks.State) {
	for i := range sized(50, 1000) {
		id := fmt.Sprint("a", i)
		task := Working(id)
		Put(t, here, task)
		var all sync.WaitGroup
		var merged []byte
		all.Go(func() {
			var err error
			if merged, err = there.Open(owner).SetVariables(t.Context(), id,
				[]byte(`{"late":true}`)); err != nil && !errors.Is(err, tasks.ErrEnded) {
				t.Error(err)
			}
		})
		Put(t, here, Ended(task, mcp.TaskCompleted, "done"))
		all.Wait()
		if got := Get(t, there, id).Variables; merged != nil && string(got) != `{"late":true}` {
			t.Fatalf("%s: %s were set, and %q are there", id, merged, got)
		}
	}
}

// Pages show every task that stays once, and in order, while others come and go.
func pagesWhileWriting(t *testing.T, here, there tasks.State) {
	var stay []string
	for i := range 30 {
		Put(t, here, Working(fmt.Sprint("stays", i)), Working(fmt.Sprint("goes", i)))
		stay = append(stay, fmt.Sprint("stays", i))
	}
	var all sync.WaitGroup
	all.Go(func() {
		for i := range sized(200, 5000) {
			if err := here.Open(owner).Delete(t.Context(), fmt.Sprint("goes", i)); err != nil {
				t.Error(err)
				return
			}
			if err := here.Open(owner).Put(t.Context(), Working(fmt.Sprint("goes", i+30))); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for n := 1; n <= 10; n++ {
		list := IDs(t, there, n)
		list = slices.DeleteFunc(list, func(id string) bool { return strings.HasPrefix(id, "goes") })
		if !slices.Equal(list, stay) {
			t.Errorf("pages of %d: %v", n, list)
		}
	}
	all.Wait()
}

// No other owner can see, change or take an owner's task.
func ownersApart(t *testing.T, here, there tasks.State) {
	task := Working("a", "secret\n")
	Put(t, here, task)
	const other = "other"
	ctx := t.Context()
	if _, err := there.Open(other).Get(ctx, "a"); !errors.Is(err, tasks.ErrNotFound) {
		t.Errorf("get: %v", err)
	}
	if _, err := there.Open(other).Head(ctx, "a"); !errors.Is(err, tasks.ErrNotFound) {
		t.Errorf("head: %v", err)
	}
	if list, _, err := there.Open(other).List(ctx, tasks.OldestFirst, "", 10); err != nil || len(list) > 0 {
		t.Errorf("list: %v, %v", list, err)
	}
	theirs := Working("a")
	theirs.Owner = other
	others := there.Open(other).(tasks.Shared)
	if _, err := others.Take(ctx, theirs, []byte(`{}`)); err == nil {
		t.Error("taken")
	}
	if err := others.Watch(ctx, &theirs); !errors.Is(err, tasks.ErrNotFound) {
		t.Errorf("watch: %v", err)
	}
	if _, err := there.Open(other).SetVariables(ctx, "a", []byte(`{"v":1}`)); !errors.Is(err, tasks.ErrEnded) {
		t.Errorf("variables: %v", err)
	}
	for name, err := range map[string]error{"ask": others.Ask(ctx, "a"),
		"fetched": there.Open(other).MarkFetched(ctx, "a"), "delete": there.Open(other).Delete(ctx, "a")} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	over, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	if asked, _, _ := Shared(here).Heed(over); len(asked) > 0 {
		t.Error("asked to cancel by another owner")
	}
	if got := Get(t, there, "a"); got.Status != mcp.TaskWorking || len(got.Variables) > 0 {
		t.Errorf("%+v", got)
	}
}
