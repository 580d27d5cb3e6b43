package statetest

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/run"
)

// RunShared holds two states that see the same tasks, as two processes have them, against the contract of
// tasks.State. open makes such a pair, empty.
func RunShared(t *testing.T, open func(t *testing.T) (here, there tasks.State)) {
	for name, test := range map[string]func(t *testing.T, here, there tasks.State){
		"follows":                  follows,
		"cancels elsewhere":        cancelsElsewhere,
		"heeds its own":            heedsItsOwn,
		"one end":                  oneEnd,
		"variables from elsewhere": variablesFromElsewhere,
		"takes":                    takes,
		"left to others":           leftToOthers,
		"races for the end":        racesForTheEnd,
		"fenced":                   formerKeeper,
		"fenced notes":             formerKeepersNotes,
		"seen whole":               seenWhole,
		"variables at the end":     variablesAtTheEnd,
		"pages while writing":      pagesWhileWriting,
		"owners apart":             ownersApart,
		"read from anywhere":       readFromAnywhere,
		"numbers stay":             numbersStay,
		"big result":               bigResult,
		"many tasks":               manyTasks,
		"expires":                  expires,
		"files":                    filesElsewhere,
	} {
		t.Run(name, func(t *testing.T) {
			here, there := open(t)
			test(t, here, there)
		})
	}
}

// A process sees the task of another one run and end, and reads its output from anywhere.
func follows(t *testing.T, here, there tasks.State) {
	a, b := NewRunner(t, run.Options{State: here, Owner: owner}),
		NewRunner(t, run.Options{State: there, Owner: owner})
	const line, lines = 10_001, 100
	more := make(chan struct{})
	run := StartDelivered(t, a, func(ctx context.Context, task *run.Run) run.Done {
		for i := range lines {
			if i == lines/2 {
				<-more
			}
			if err := task.Log().Append(ctx,
				partials.Chunk{Data: []byte(strings.Repeat(string(rune('a'+i%26)), line-1) +
					"\n")}); err != nil {
				return run.Done{Err: err}
			}
		}
		return run.Done{Result: mcp.Result("the result")}
	})
	view, release, err := b.Follow(t.Context(), run.ID())
	if err != nil || view == nil {
		t.Fatal(err)
	}
	defer release()
	Eventually(t, func() bool { return view.Log().Size() == lines/2*line })
	close(more)
	<-view.Ended()
	if end := view.Task(); end.Status != mcp.TaskCompleted || end.Outcome.Result == nil {
		t.Errorf("%+v", end)
	}
	<-run.Ended()
	want := ReadAll(t, run.Log())
	stored := Get(t, there, run.ID())
	for name, log := range map[string]*partials.Log{"followed": view.Log(), "stored": stored.Log} {
		if got := ReadAll(t, log); got != want {
			t.Errorf("%s: %d bytes of output, not the %d that were written", name, len(got), len(want))
		}
	}
	for pos := stored.Log.Size() - 1; pos > 0; pos -= 77_777 {
		if batch, _, err := readAt(stored.Log, pos, 1); err != nil || batch.Start > pos || batch.End <= pos {
			t.Errorf("at %d: from %d to %d, %v", pos, batch.Start, batch.End, err)
		}
	}
}

// A task is cancelled by its keeper, whoever asks.
func cancelsElsewhere(t *testing.T, here, there tasks.State) {
	a, b := NewRunner(t, run.Options{State: here, Owner: owner}),
		NewRunner(t, run.Options{State: there, Owner: owner})
	run := StartDelivered(t, a, UntilDone)
	if got, err := b.Cancel(t.Context(), run.ID()); err != nil || got.Status != mcp.TaskCancelled {
		t.Errorf("%+v, %v", got, err)
	}
	<-run.Ended()
	if got := run.Task(); got.Status != mcp.TaskCancelled {
		t.Errorf("where it ran: %+v", got)
	}
}

// A store heeds what is asked of its owner's tasks, and not of those of another owner in the same process.
func heedsItsOwn(t *testing.T, here, there tasks.State) {
	const other = "other"
	theirs := Working("theirs")
	theirs.Owner = other
	Put(t, here, Working("mine"), theirs)
	for _, id := range []string{"theirs", "theirs"} {
		if err := there.Open(other).(tasks.Shared).Ask(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		Eventually(t, func() bool {
			asked, _, err := here.Open(other).(tasks.Shared).Heed(t.Context())
			return err == nil && slices.Equal(asked, []string{id})
		})
		if asked, fenced, err := Shared(here).Heed(t.Context()); err != nil || len(asked)+len(fenced) > 0 {
			t.Errorf("asked %v, fenced %v, %v", asked, fenced, err)
		}
	}
}

// A task that ends while others cancel it and look at it ends once, and all see the same end.
func oneEnd(t *testing.T, here, there tasks.State) {
	a, b := NewRunner(t, run.Options{State: here, Owner: owner}),
		NewRunner(t, run.Options{State: there, Owner: owner})
	var all sync.WaitGroup
	for range 50 {
		end := make(chan struct{})
		run := StartDelivered(t, a, func(ctx context.Context, _ *run.Run) run.Done {
			select {
			case <-end:
				return run.Done{Result: mcp.Result("done")}
			case <-ctx.Done():
				return run.Done{Err: context.Cause(ctx)}
			}
		})
		all.Go(func() {
			cancelled, err := b.Cancel(t.Context(), run.ID())
			<-run.Ended()
			told, stored := run.Task().Status, Get(t, there, run.ID()).Status
			if told != stored || err == nil && cancelled.Status != mcp.TaskCancelled ||
				err == nil && told != mcp.TaskCancelled {
				t.Errorf("told %s, stored %s, the cancel %s, %v", told, stored, cancelled.Status, err)
			}
		})
		close(end)
	}
	all.Wait()
}

// Variables are merged, whichever process sets them, and all processes see them.
func variablesFromElsewhere(t *testing.T, here, there tasks.State) {
	task := Working("a")
	Put(t, here, task)
	var all sync.WaitGroup
	for i, s := range []tasks.State{here, there, here, there} {
		all.Go(func() {
			if _, err := s.Open(owner).SetVariables(t.Context(), "a",
				[]byte(`{"v`+string(rune('0'+i))+`":1}`)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	Put(t, here, Ended(task, mcp.TaskCompleted, "done"))
	if got := Get(t, there, "a").Variables; string(got) != `{"v0":1,"v1":1,"v2":1,"v3":1}` {
		t.Errorf("%s", got)
	}
}

// Only the process that has taken a task can change it.
func takes(t *testing.T, here, there tasks.State) {
	task := Working("a")
	Put(t, here, task)
	taken, err := Shared(there).Take(t.Context(), Working("a"), []byte(`{"by":"a test"}`))
	if err != nil || !taken.Detached {
		t.Fatalf("%+v, %v", taken, err)
	}
	if is, err := Shared(here).Taken(t.Context(), "a"); err != nil || !is {
		t.Errorf("taken: %t, %v", is, err)
	}
	if _, err := Shared(here).Take(t.Context(), Working("a"), []byte(`{}`)); err == nil {
		t.Error("it was taken twice")
	}
	Put(t, there, Ended(taken, mcp.TaskCompleted, "done"))
	if got := Get(t, here, "a"); got.Status != mcp.TaskCompleted {
		t.Errorf("%+v", got)
	}
}
