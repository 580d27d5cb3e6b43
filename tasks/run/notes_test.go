package run_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/run"
	"runnel/tasks/statetest"
)

// asker is a client that is told of questions and of progress.
type asker struct {
	hears
	asked    func(q *run.Question) (func(), error)
	progress chan tasks.Progress
}

func (a *asker) Asked(q *run.Question) (func(), error) { return a.asked(q) }

func (a *asker) Progress(p tasks.Progress) { a.progress <- p }

// ask puts a question, and returns what comes of it.
func ask(task *run.Run, message string) string {
	q := &run.Question{Message: message,
		Request: mcp.InputRequest{Method: "elicitation/create",
			Params: json.RawMessage(`{"message":"` + message + `"}`)}}
	if err := task.Ask(q); err != nil {
		return err.Error()
	}
	defer func() { _ = q.Close() }()
	select {
	case answer := <-q.Answered():
		return string(answer)
	case err := <-q.Refused():
		return err.Error()
	case <-task.Context().Done():
		return "nothing"
	}
}

// A question of a task that was taken is answered where the task was made, by its client, or by anybody else
// who follows it; or it is said that it cannot be. Nobody sees it among the variables, also when the task has
// ended.
func TestQuestionsOfATakenTask(t *testing.T) {
	starter, supervisor, third := threeProcesses(t)
	come := make(chan string)
	client := &asker{hears: func(mcp.Task) {}, progress: make(chan tasks.Progress, 10)}
	client.asked = func(q *run.Question) (func(), error) {
		switch q.Message {
		case "by the client?":
			return func() { go func() { _ = q.Answer(context.Background(), json.RawMessage(`"client"`)) }() },
				nil
		case "refused?":
			return nil, rpc.Errorf(mcp.CodeMethodNotFound, "it cannot be asked")
		case "failed?":
			return func() { go q.Refuse(context.Background(), errors.New("it does not want to")) }, nil
		}
		return nil, nil
	}
	here, there := detached(t, starter, supervisor,
		run.Spec{Handle: true, Client: client,
			Variables: json.RawMessage(`{"color":"red"}`)}, func(_ context.Context,
			running *run.Run) run.Done {
			for _, message := range []string{"by the client?", "refused?", "failed?", "here?", "elsewhere?"} {
				come <- ask(running, message)
			}
			running.Report(tasks.Progress{Done: 1, Total: 2, Message: "half"})
			running.PublishProgress()
			<-come
			return run.Done{Result: mcp.Result("fine")}
		})
	here.Delivered()
	for _, want := range []string{`"client"`, "it cannot be asked", "it does not want to"} {
		if got := <-come; !strings.Contains(got, want) {
			t.Errorf("%s, want %s", got, want)
		}
	}
	for i, message := range []string{"here?", "elsewhere?"} { // in the order in which they are asked
		r := []*run.Runner{starter, third}[i]
		var d mcp.DetailedTask
		statetest.Eventually(t, func() bool {
			var err error
			if d, err = r.Detailed(t.Context(), here.ID()); err != nil {
				t.Fatal(err)
			}
			for _, q := range d.InputRequests {
				return strings.Contains(string(q.Params), message)
			}
			return false
		})
		if d.Status != mcp.TaskInputRequired || d.StatusMessage != message ||
			strings.Contains(fmt.Sprint(d.Meta), "runnel/question") ||
			!strings.Contains(fmt.Sprint(d.Meta), "runnel/variables") {
			t.Errorf("%+v", d)
		}
		for key := range d.InputRequests {
			answer := mcp.UpdateTaskParams{TaskID: here.ID(),
				InputResponses: map[string]json.RawMessage{key: json.RawMessage(`{"action":"decline"}`),
					"unknown": nil}}
			if err := r.Answer(t.Context(), answer.TaskID, answer.InputResponses); err != nil {
				t.Error(err)
			}
			// It may be sent twice.
			if err := r.Answer(t.Context(), answer.TaskID, answer.InputResponses); err != nil {
				t.Error(err)
			}
		}
		if got := <-come; got != `{"action":"decline"}` {
			t.Errorf("%s %s", message, got)
		}
	}
	if got := <-client.progress; got != (tasks.Progress{Done: 1, Total: 2, Message: "half"}) {
		t.Errorf("%+v", got)
	}
	come <- ""
	<-there.Ended()
	<-here.Ended()
	if open := here.Questions(); len(open) > 0 {
		t.Errorf("open at the end: %v", open)
	}
	task, err := third.Get(t.Context(), here.ID())
	if own := string(tasks.OwnVariables(task.Variables)); err != nil || own != `{"color":"red"}` {
		t.Errorf("%s, %v", own, err)
	}
}

// A question that nobody has answered is answered by who comes later: what asked first may be gone.
func TestQuestionOutlivesWhoAsksTheClient(t *testing.T) {
	starter, supervisor, third := threeProcesses(t)
	come := make(chan string, 1)
	// a client that says nothing.
	client := &asker{asked: func(*run.Question) (func(), error) { return func() {}, nil }}
	client.hears = func(mcp.Task) {}
	here, there := detached(t, starter, supervisor,
		run.Spec{Handle: true, Client: client}, func(_ context.Context, task *run.Run) run.Done {
			come <- ask(task, "really?")
			return run.Done{}
		})
	here.Delivered()
	statetest.Eventually(t, func() bool { return len(here.Questions()) == 1 })
	starter.Close()
	v, release, err := third.Follow(t.Context(), here.ID())
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	open := v.Questions()
	if len(open) != 1 {
		t.Fatalf("%v", open)
	}
	for key := range open {
		if err := v.Answer(t.Context(),
			map[string]json.RawMessage{key: json.RawMessage(`{"action":"accept"}`)}); err != nil {
			t.Fatal(err)
		}
	}
	if got := <-come; got != `{"action":"accept"}` {
		t.Error(got)
	}
	<-there.Ended()
}
