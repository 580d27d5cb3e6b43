package run

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/statetest/fake"
)

func question(t *testing.T, r *Run) *Question {
	t.Helper()
	q := &Question{Message: "really?"}
	if err := r.Ask(q); err != nil {
		t.Fatal(err)
	}
	return q
}

func TestQuestionsMoveTheTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(t, Options{})
		s := start(t, r, untilDone)
		s.Deliver(delivered)
		status := func(want mcp.TaskStatus, open int) {
			t.Helper()
			if got := s.Task().Status; got != want || len(s.Questions()) != open {
				t.Errorf("status %s with %d questions, want %s with %d", got, len(s.Questions()), want, open)
			}
		}
		first := question(t, s.Run)
		status(mcp.TaskInputRequired, 1)
		_ = s.Answer(t.Context(), map[string]json.RawMessage{first.key: json.RawMessage(`1`), "unknown": nil})
		second := question(t, s.Run) // before the first one is closed
		status(mcp.TaskInputRequired, 1)
		if err := first.Close(); err != nil {
			t.Fatal(err)
		}
		status(mcp.TaskInputRequired, 1)
		if err := second.Close(); err != nil {
			t.Fatal(err)
		}
		status(mcp.TaskWorking, 0)
		if got := string(<-first.Answered()); got != "1" {
			t.Errorf("answer %s", got)
		}
		s.Cancel("")
		if err := s.Ask(&Question{}); !errors.Is(err, tasks.ErrEnded) {
			t.Errorf("asked after the end: %v", err)
		}
		r.Close()
	})
}

// questionless stores no task that waits for an answer.
type questionless struct{ fake.Alone }

func (s questionless) Put(ctx context.Context, t tasks.Task) error {
	if t.Status == mcp.TaskInputRequired {
		return errors.New("no room")
	}
	return s.Alone.Put(ctx, t)
}

// A task does not wait for the answer to a question that was not put.
func TestQuestionThatIsNotStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(t, Options{State: fake.State(questionless{fake.Memory()})})
		s := start(t, r, untilDone)
		s.Deliver(delivered)
		if err := s.Ask(&Question{Message: "really?"}); err == nil {
			t.Error("a question that cannot be stored is put")
		}
		if got := s.Task().Status; got != mcp.TaskWorking || len(s.Questions()) > 0 {
			t.Errorf("status %s with %d questions", got, len(s.Questions()))
		}
		if last := s.told[len(s.told)-1]; last.Status != mcp.TaskWorking {
			t.Errorf("told %s", last.Status)
		}
		r.Close()
	})
}

// The status says a question that is open, not one that has been answered, and who watches the task is told
// of each change.
func TestStatusSaysWhatIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(t, Options{})
		s := start(t, r, untilDone)
		s.Deliver(delivered)
		changed, unwatch := s.Watch()
		defer unwatch()
		says := func(want string) {
			t.Helper()
			select {
			case <-changed:
			default:
				t.Errorf("nobody is told of %q", want)
			}
			time.Sleep(time.Second) // virtual: each change has a time of its own
			if got := s.Task(); got.StatusMessage != want || time.Since(got.UpdatedAt) != time.Second {
				t.Errorf("says %q %v after it was updated, want %q", got.StatusMessage,
					time.Since(got.UpdatedAt), want)
			}
		}
		ask := func(message string) *Question {
			t.Helper()
			q := &Question{Message: message}
			if err := s.Ask(q); err != nil {
				t.Fatal(err)
			}
			return q
		}
		color := ask("color?")
		says("color?")
		name, size := ask("name?"), ask("size?")
		says("color?")
		_ = s.Answer(t.Context(), map[string]json.RawMessage{color.key: nil})
		says("name?")
		if err := name.Close(); err != nil {
			t.Fatal(err)
		}
		says("size?")
		_ = s.Answer(t.Context(), map[string]json.RawMessage{size.key: nil})
		last := ask("last?") // before the others are closed
		says("last?")
		for _, q := range []*Question{color, size} {
			if err := q.Close(); err != nil {
				t.Fatal(err)
			}
		}
		select {
		case <-changed:
			t.Error("that questions are closed which have been answered is told")
		default:
		}
		if err := last.Close(); err != nil {
			t.Fatal(err)
		}
		says("")
		s.Cancel("")
		r.Close()
	})
}

// However a question and the end meet, the end is told and stored last.
func TestEndComesLast(t *testing.T) {
	for range 500 {
		r := newRunner(t, Options{})
		s := start(t, r, untilDone)
		s.Deliver(delivered)
		var wg sync.WaitGroup
		wg.Go(func() {
			for {
				q := &Question{}
				if s.Ask(q) != nil {
					return
				}
				_ = q.Close()
			}
		})
		wg.Go(func() { s.Cancel("") })
		wg.Wait()
		<-s.Ended()
		stored, err := r.Get(context.Background(), s.ID())
		if err != nil || stored.Status != mcp.TaskCancelled || stored.Outcome == nil {
			t.Fatalf("stored %s, %v", stored.Status, err)
		}
		if last := s.told[len(s.told)-1]; last.Status != mcp.TaskCancelled {
			t.Fatalf("told last: %s", last.Status)
		}
		r.Close()
	}
}

func TestPromoteAfterTheEndStoresNothing(t *testing.T) {
	r := newRunner(t, Options{})
	run, err := r.Start(t.Context(), Spec{Work: untilDone})
	if err != nil {
		t.Fatal(err)
	}
	run.Cancel("")
	if err := run.Promote(t.Context()); !errors.Is(err, tasks.ErrEnded) {
		t.Errorf("promoted: %v", err)
	}
	if stored, _, _ := r.o.State.Open(tasks.DefaultOwner).List(t.Context(), tasks.OldestFirst, "", 1); len(stored) > 0 {
		t.Error("the task is stored")
	}
}
