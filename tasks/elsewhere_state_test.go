package tasks

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"runnel/partials"
	"runnel/rpc/mcp"
)

// elsewhere is a state with one task, which another process has put, and which can be taken. Its notes cannot be stored: err says why.
type elsewhere struct {
	*Memory
	task Task
	err  error
}

func newElsewhere(variables string, err error) *elsewhere {
	t := Task{ID: "there", Owner: DefaultOwner, Status: mcp.TaskInputRequired, TTL: DefaultTTL, Variables: json.RawMessage(variables)}
	t.Log = partials.Stored(nil, 0)
	t.Segments = partials.NewSegments(t.Log)
	return &elsewhere{NewMemory(), t, err}
}

func (s *elsewhere) Get(context.Context, string, string) (Task, error) { return s.task, nil }

func (s *elsewhere) Watch(ctx context.Context, _ *Task) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

func (s *elsewhere) Take(_ context.Context, t Task, _ []byte) (Task, error) {
	taken := s.task
	taken.Status, taken.Log, taken.Segments, taken.Attempt = mcp.TaskWorking, t.Log, t.Segments, 2
	return taken, nil
}

func (s *elsewhere) SetVariables(context.Context, string, string, []byte) ([]byte, error) {
	return nil, s.err
}

// The variables of a task stay as they are when the notes of its last attempt cannot be deleted.
func TestTakenTaskKeepsItsVariables(t *testing.T) {
	r := newRunner(t, Options{State: newElsewhere(`{"mine":1,"runnel/progress":{"done":1}}`, errors.New("no connection"))})
	run, err := r.Take(t.Context(), "there", nil, Spec{Work: untilDone})
	if err != nil {
		t.Fatal(err)
	}
	run.Delivered()
	if got := string(OwnVariables(run.Task().Variables)); got != `{"mine":1}` {
		t.Errorf("they are %s", got)
	}
}

// An answer that comes too late is acknowledged and ignored, also where the task has ended in another process a moment ago.
func TestAnswerForATaskThatHasJustEnded(t *testing.T) {
	r := newRunner(t, Options{State: newElsewhere(`{"runnel/question/question-1":{"method":"elicitation/create","message":"really?"}}`, ErrEnded)})
	p := mcp.UpdateTaskParams{TaskID: "there", InputResponses: map[string]json.RawMessage{"question-1": json.RawMessage(`{"action":"decline"}`)}}
	if _, err := r.UpdateTask(t.Context(), p); err != nil {
		t.Errorf("error %v", err)
	}
}
