package statetest

import (
	"context"
	"encoding/json"
	"testing"

	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks"
	"runnel/tasks/run"
)

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
