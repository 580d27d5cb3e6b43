package statetest

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"

	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
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

// A task that resumes is left to others when its runner is closed: it has not ended, keeps what was stored of
// it, and goes on in the process that takes it, which finds the answer that came in between. One that was
// left and is cancelled ends, with the tasks that its work has begun; one that does not resume fails.
func leftToOthers(t *testing.T, here, there tasks.State) {
	a, b := NewRunner(t, run.Options{State: here, Owner: owner}),
		NewRunner(t, run.Options{State: there, Owner: owner})
	question := func() *run.Question {
		return &run.Question{Name: "ok", Message: "Go on?", Request: mcp.InputRequest{Method: "elicitation/create",
			Params: rawjson.Encode(mcp.ElicitParams{Message: "Go on?"})}}
	}
	asked := make(chan struct{}, 2)
	begin := func(resume bool, note any) *run.Run {
		return StartDelivered(t, a, func(ctx context.Context, task *run.Run) run.Done {
			if resume {
				if err := task.Remember(ctx, map[string]any{tasks.ResumeNote: "tool@1", tasks.WorkPrefix + "one": note}); err != nil {
					return run.Done{Err: err}
				}
			}
			_ = task.Log().Append(ctx, partials.Chunk{Data: []byte("one\n")})
			q := question()
			if err := task.Ask(q); err != nil {
				return run.Done{Err: err}
			}
			asked <- struct{}{}
			<-ctx.Done()
			_ = q.Close()
			return run.Done{Err: context.Cause(ctx)}
		})
	}
	goesOn, child, fails := begin(true, 1), begin(true, 1), begin(false, nil)
	grown := begin(true, map[string]string{"task": child.ID()}) // a task of a task
	cancelled := begin(true, map[string]string{"task": grown.ID()})
	for range 5 {
		<-asked
	}
	if _, err := Shared(there).Take(t.Context(), Working(goesOn.ID()), []byte(`{}`)); err == nil {
		t.Error("it was taken although its keeper lives")
	}
	a.Close()
	if err := here.Close(); err != nil {
		t.Fatal(err)
	}
	for _, left := range []*run.Run{goesOn, cancelled, grown, child} {
		<-left.Ended()
		if got := Get(t, there, left.ID()); got.Status != mcp.TaskInputRequired ||
			ReadAll(t, got.Log) != "one\n" {
			t.Errorf("left as %s with %q", got.Status, ReadAll(t, got.Log))
		}
	}
	if got := Get(t, there, fails.ID()); got.Status != mcp.TaskFailed {
		t.Errorf("one that does not resume is %s", got.Status)
	}
	answer := rawjson.Encode(mcp.ElicitResult{Action: mcp.ElicitAccept})
	if err := b.Answer(t.Context(), goesOn.ID(), map[string]json.RawMessage{"question-for-ok": answer}); err != nil {
		t.Error(err)
	}
	if got, err := b.Cancel(t.Context(), cancelled.ID()); err != nil || got.Status != mcp.TaskCancelled {
		t.Errorf("cancelled: %s, %v", got.Status, err)
	}
	for _, begun := range []*run.Run{grown, child} {
		if got := Get(t, there, begun.ID()); got.Status != mcp.TaskCancelled {
			t.Errorf("a task that a cancelled one has begun is %s", got.Status)
		}
	}
	Eventually(t, func() bool {
		left, err := b.Left(t.Context())
		return err == nil && len(left) == 1 && left[0].ID == goesOn.ID() &&
			tasks.Resumes(left[0].Variables) == "tool@1"
	})
	taken, err := b.Take(t.Context(), goesOn.ID(), []byte(`{}`),
		run.Spec{Tool: "tool", Work: func(ctx context.Context, task *run.Run) run.Done {
			q := question()
			if err := task.Ask(q); err != nil {
				return run.Done{Err: err}
			}
			answer := <-q.Answered()
			_ = task.Log().Append(ctx, partials.Chunk{Data: []byte("two\n")})
			_ = q.Close()
			return run.Done{Result: mcp.Result(string(answer) + string(task.Remembered()["one"]))}
		}})
	if err != nil {
		t.Fatal(err)
	}
	taken.Begin()
	taken.Delivered()
	<-taken.Ended()
	got := Get(t, there, goesOn.ID())
	text, _ := mcp.TextOf(got.Outcome.Result.Content[0])
	if got.Status != mcp.TaskCompleted || ReadAll(t, got.Log) != "one\ntwo\n" || text != string(answer)+"1" {
		t.Errorf("%s with %q and %q", got.Status, ReadAll(t, got.Log), text)
	}
	if left, err := b.Left(t.Context()); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
