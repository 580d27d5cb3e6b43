package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/statetest/fake"
)

// elsewhere is a state with one task, which another process has put, and which can be taken. err is why its
// notes cannot be stored.
type elsewhere struct {
	fake.Alone
	task  tasks.Task
	err   error
	notes chan string // the patches
}

func newElsewhere(variables string, err error) *elsewhere {
	t := tasks.Task{ID: "there", Owner: tasks.DefaultOwner, Status: mcp.TaskInputRequired,
		CreatedAt: time.Now(), TTL: tasks.DefaultTTL, Variables: json.RawMessage(variables)}
	t.Log = partials.Stored(nil, 0)
	t.Segments = partials.NewSegments(t.Log)
	return &elsewhere{fake.Memory(), t, err, make(chan string, 10)}
}

func (s *elsewhere) Get(context.Context, string) (tasks.Task, error) { return s.task, nil }

func (s *elsewhere) Watch(ctx context.Context, _ *tasks.Task) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

func (s *elsewhere) Take(_ context.Context, t tasks.Task, _ []byte) (tasks.Task, error) {
	taken := s.task
	taken.Status = mcp.TaskWorking
	taken.Log = t.Log
	taken.Segments = t.Segments
	taken.Attempt = 2
	return taken, nil
}

func (s *elsewhere) SetVariables(_ context.Context, _ string, patch []byte) ([]byte, error) {
	s.notes <- string(patch)
	return nil, s.err
}

// The progress of a taken task is noted like that of any other, so that others see it; sooner if its client
// waits for it.
func TestProgressOfATakenTaskIsNoted(t *testing.T) {
	for _, published := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			state := newElsewhere("", nil)
			r := newRunner(t, Options{State: fake.State(state)})
			run, err := r.Take(t.Context(), "there", nil, Spec{Work: untilDone})
			if err != nil {
				t.Fatal(err)
			}
			run.Begin()
			run.Delivered()
			if published {
				run.PublishProgress()
			}
			<-time.After(10 * time.Millisecond)
			began := time.Now()
			for n := range 4 {
				run.Report(tasks.Progress{Done: float64(n + 1)})
				if got, want := <-state.notes,
					fmt.Sprintf(`{"runnel/attempt-2-progress":{"done":%d}}`, n+1); got != want {
					t.Errorf("published %v: noted %s, want %s", published, got, want)
				}
			}
			if took := time.Since(began); published != (took <= time.Second) {
				t.Errorf("published %v: noted within %v", published, took)
			}
			r.Close()
		})
	}
}

// The variables of a task stay as they are when the notes of its last attempt cannot be deleted.
func TestTakenTaskKeepsItsVariables(t *testing.T) {
	r := newRunner(t, Options{State: fake.State(newElsewhere(`{"mine":1,"runnel/progress":{"done":1}}`,
		errors.New("no connection")))})
	run, err := r.Take(t.Context(), "there", nil, Spec{Work: untilDone})
	if err != nil {
		t.Fatal(err)
	}
	run.Begin()
	run.Delivered()
	if got := string(tasks.OwnVariables(run.Task().Variables)); got != `{"mine":1}` {
		t.Errorf("they are %s", got)
	}
}

// An answer that comes too late is acknowledged and ignored, also where the task has ended in another process
// a moment ago.
func TestAnswerForATaskThatHasJustEnded(t *testing.T) {
	r := newRunner(t, Options{State: fake.State(newElsewhere(`{"runnel/question/question-1":{"method":"elicitation/create","message":"really?"}}`, tasks.ErrEnded))})
	p := mcp.UpdateTaskParams{TaskID: "there",
		InputResponses: map[string]json.RawMessage{"question-1": json.RawMessage(`{"action":"decline"}`)}}
	if err := r.Answer(t.Context(), p.TaskID, p.InputResponses); err != nil {
		t.Errorf("error %v", err)
	}
}

// unaskable is elsewhere, but it does not store that a task needs input.
type unaskable struct{ *elsewhere }

func (s unaskable) Put(ctx context.Context, t tasks.Task) error {
	if t.Status == mcp.TaskInputRequired {
		return tasks.ErrBusy
	}
	return s.elsewhere.Put(ctx, t)
}

// A question that could not be asked is not shown to the followers of the task.
func TestQuestionThatCannotBeAskedIsWithdrawn(t *testing.T) {
	state := newElsewhere("", nil)
	r := newRunner(t, Options{State: fake.State(unaskable{state})})
	run, err := r.Take(t.Context(), "there", nil, Spec{Work: untilDone})
	if err != nil {
		t.Fatal(err)
	}
	run.Begin()
	run.Delivered()
	if err := run.Ask(&Question{Message: "really?"}); !errors.Is(err, tasks.ErrBusy) {
		t.Fatalf("asked: %v", err)
	}
	shown := tasks.OwnVariables(nil)
	for len(state.notes) > 0 {
		if shown, err = tasks.MergeVariables(shown, json.RawMessage(<-state.notes)); err != nil {
			t.Fatal(err)
		}
	}
	if shown != nil {
		t.Errorf("still shown: %s", shown)
	}
}

// seenFirst is elsewhere, but who watches sees the end of the task a moment before the process that has stored it
// knows that.
type seenFirst struct {
	*elsewhere
	ended chan tasks.Task
}

func (s seenFirst) Put(_ context.Context, t tasks.Task) error {
	if t.Status.Terminal() {
		s.ended <- t
		time.Sleep(time.Second)
	}
	return nil
}

func (s seenFirst) Watch(ctx context.Context, t *tasks.Task) error {
	select {
	case *t = <-s.ended:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// A process that follows a task and then takes it, since its keeper is gone, gives those who wait the result.
func TestFollowedThenTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(t, Options{State: fake.State(seenFirst{newElsewhere("", nil), make(chan tasks.Task, 1)})})
		awaited := make(chan tasks.Task)
		for range 2 {
			go func() {
				got, err := r.Await(t.Context(), "there")
				if err != nil {
					t.Error(err)
				}
				awaited <- got
			}()
		}
		synctest.Wait()
		run, err := r.Take(t.Context(), "there", nil,
			Spec{Work: func(context.Context, *Run) Done { return Done{Result: mcp.Result("done")} }})
		if err != nil {
			t.Fatal(err)
		}
		run.Begin()
		run.Delivered()
		for range 2 {
			if got := <-awaited; got.Status != mcp.TaskCompleted || got.Outcome == nil {
				t.Errorf("%s, %v", got.Status, got.Outcome)
			}
		}
		r.Close()
	})
}

// A worker whose tool does not stop ends all the same: GiveUp ends the tasks that it has taken, too.
func TestGiveUpEndsATakenTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(t, Options{State: fake.State(newElsewhere("", nil))})
		stuck := make(chan struct{})
		run, err := r.Take(t.Context(), "there", nil,
			Spec{Work: func(context.Context, *Run) Done { <-stuck; return Done{} }})
		if err != nil {
			t.Fatal(err)
		}
		run.Begin()
		run.Delivered()
		time.AfterFunc(time.Second, r.GiveUp)
		r.Close()
		select {
		case <-run.Ended():
		default:
			t.Error("it has not ended")
		}
		close(stuck)
	})
}

// slow is elsewhere, but notes of progress are on their way until ctx ends, and are lost then, while it is
// slow.
type slow struct {
	*elsewhere
	slow atomic.Bool
}

func (s *slow) SetVariables(ctx context.Context, id string, patch []byte) ([]byte, error) {
	if s.slow.Load() {
		<-ctx.Done()
		s.slow.Store(false)
		return nil, context.Cause(ctx)
	}
	return s.elsewhere.SetVariables(ctx, id, patch)
}

// The last progress is stored with the end, also if a note of it was on its way when the task ended.
func TestLastProgressIsNotedAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		state := &slow{elsewhere: newElsewhere("", nil)}
		r := newRunner(t, Options{State: fake.State(state)})
		run, err := r.Take(t.Context(), "there", nil, Spec{Work: func(_ context.Context, run *Run) Done {
			time.Sleep(2 * time.Second)
			state.slow.Store(true)
			run.Report(tasks.Progress{Done: 1, Total: 1})
			time.Sleep(2 * time.Second)
			return Done{}
		}})
		if err != nil {
			t.Fatal(err)
		}
		run.Begin()
		run.Delivered()
		<-run.Ended()
		close(state.notes)
		if got, want := <-state.notes, `{"runnel/attempt-2-progress":{"done":1,"total":1}}`; got != want {
			t.Errorf("noted %q, want %s", got, want)
		}
		r.Close()
	})
}
