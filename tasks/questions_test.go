package tasks

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"runnel/rpc"
	"runnel/rpc/mcp"
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
		s.Answer(map[string]json.RawMessage{first.key: json.RawMessage(`1`), "unknown": nil})
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
		if err := s.Ask(&Question{}); !errors.Is(err, ErrEnded) {
			t.Errorf("asked after the end: %v", err)
		}
		r.Close()
	})
}

// runElsewhere is a task that another runner on the same state runs.
func runElsewhere(t *testing.T) (here, there *Runner, s *started) {
	dir := t.TempDir()
	here, there = newRunner(t, Options{Store: openStore(t, SQLiteOptions{Dir: dir})}), newRunner(t, Options{Store: openStore(t, SQLiteOptions{Dir: dir})})
	s = start(t, there, untilDone)
	s.Deliver(delivered)
	return here, there, s
}

// Questions are known to the process that runs the task only. Another one acknowledges no answer that nobody gets; what comes
// when the task asks no more is ignored, as it is where the task runs.
func TestQuestionsElsewhere(t *testing.T) {
	here, there, s := runElsewhere(t)
	q := question(t, s.Run)
	answer := mcp.UpdateTaskParams{TaskID: s.ID(), InputResponses: map[string]json.RawMessage{q.key: json.RawMessage(`{"action":"decline"}`)}}
	var refused *rpc.Error
	if _, err := here.updateTask(t.Context(), answer); !errors.As(err, &refused) || refused.Code != mcp.CodeInvalidParams {
		t.Errorf("answered elsewhere: %v", err)
	}
	_, release, err := here.Follow(t.Context(), s.ID())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := here.updateTask(t.Context(), answer); !errors.As(err, &refused) || refused.Code != mcp.CodeInvalidParams {
		t.Errorf("answered where it is followed: %v", err)
	}
	release()
	if _, err := there.updateTask(t.Context(), answer); err != nil {
		t.Errorf("answered there: %v", err)
	}
	<-q.Answered()
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := here.updateTask(t.Context(), answer); err != nil {
		t.Errorf("answered later: %v", err)
	}
	s.Cancel("")
	<-s.Ended()
	if _, err := here.updateTask(t.Context(), answer); err != nil {
		t.Errorf("answered in the end: %v", err)
	}
}

// Other processes see a question that is open, not one that has been answered.
func TestStatusElsewhereSaysWhatIsAsked(t *testing.T) {
	here, _, s := runElsewhere(t)
	says := func(want mcp.TaskStatus, message string) {
		t.Helper()
		got, err := here.Get(t.Context(), s.ID())
		if err != nil || got.Status != want || got.StatusMessage != message || want == mcp.TaskInputRequired && !got.UpdatedAt.Equal(s.Task().UpdatedAt) {
			t.Errorf("status %s %q of %v, %v; want %s %q", got.Status, got.StatusMessage, got.UpdatedAt, err, want, message)
		}
	}
	var asked []*Question
	for _, message := range []string{"first?", "second?", "third?"} {
		q := &Question{Message: message}
		if err := s.Ask(q); err != nil {
			t.Fatal(err)
		}
		asked = append(asked, q)
		says(mcp.TaskInputRequired, "first?")
	}
	s.Answer(map[string]json.RawMessage{asked[0].key: json.RawMessage(`{}`)})
	for i, want := range []string{"second?", "third?"} {
		if err := asked[i].Close(); err != nil { // the first has been answered, the second is taken back
			t.Fatal(err)
		}
		says(mcp.TaskInputRequired, want)
	}
	if err := asked[2].Close(); err != nil {
		t.Fatal(err)
	}
	says(mcp.TaskWorking, "")
}

// questionless stores no task that waits for an answer.
type questionless struct{ *Memory }

func (s questionless) Put(ctx context.Context, t Task) error {
	if t.Status == mcp.TaskInputRequired {
		return errors.New("no room")
	}
	return s.Memory.Put(ctx, t)
}

// A task does not wait for the answer to a question that was not put.
func TestQuestionThatIsNotStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(t, Options{Store: questionless{NewMemory()}})
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

// The status says a question that is open, not one that has been answered, and who watches the task is told of each change.
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
				t.Errorf("says %q %v after it was updated, want %q", got.StatusMessage, time.Since(got.UpdatedAt), want)
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
		s.Answer(map[string]json.RawMessage{color.key: nil})
		says("name?")
		if err := name.Close(); err != nil {
			t.Fatal(err)
		}
		says("size?")
		s.Answer(map[string]json.RawMessage{size.key: nil})
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
	if err := run.Promote(t.Context()); !errors.Is(err, ErrEnded) {
		t.Errorf("promoted: %v", err)
	}
	if n := len(r.o.Store.(*Memory).tasks); n != 0 {
		t.Errorf("%d tasks stored", n)
	}
}
