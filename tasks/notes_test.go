package tasks_test

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
	"runnel/tasks/statetest"
)

// asker is a client that is told of questions and of progress.
type asker struct {
	hears
	asked    func(q *tasks.Question) (func(), error)
	progress chan tasks.Progress
}

func (a *asker) Asked(q *tasks.Question) (func(), error) { return a.asked(q) }

func (a *asker) Progress(p tasks.Progress) { a.progress <- p }

// ask puts a question, and returns what comes of it.
func ask(run *tasks.Run, message string) string {
	q := &tasks.Question{Message: message, Request: mcp.InputRequest{Method: "elicitation/create", Params: json.RawMessage(`{"message":"` + message + `"}`)}}
	if err := run.Ask(q); err != nil {
		return err.Error()
	}
	defer func() { _ = q.Close() }()
	select {
	case answer := <-q.Answered():
		return string(answer)
	case err := <-q.Refused():
		return err.Error()
	case <-run.Context().Done():
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
	client.asked = func(q *tasks.Question) (func(), error) {
		switch q.Message {
		case "by the client?":
			return func() { go func() { _ = q.Answer(context.Background(), json.RawMessage(`"client"`)) }() }, nil
		case "refused?":
			return nil, rpc.Errorf(mcp.CodeMethodNotFound, "it cannot be asked")
		case "failed?":
			return func() { go q.Refuse(context.Background(), errors.New("it does not want to")) }, nil
		}
		return nil, nil
	}
	here, there := detached(t, starter, supervisor, tasks.Spec{Handle: true, Client: client, Variables: json.RawMessage(`{"color":"red"}`)}, func(_ context.Context, run *tasks.Run) tasks.Done {
		for _, message := range []string{"by the client?", "refused?", "failed?", "here?", "elsewhere?"} {
			come <- ask(run, message)
		}
		run.Report(tasks.Progress{Done: 1, Total: 2, Message: "half"})
		run.PublishProgress()
		<-come
		return tasks.Done{Result: mcp.Result("fine")}
	})
	here.Delivered()
	for _, want := range []string{`"client"`, "it cannot be asked", "it does not want to"} {
		if got := <-come; !strings.Contains(got, want) {
			t.Errorf("%s, want %s", got, want)
		}
	}
	for i, message := range []string{"here?", "elsewhere?"} { // in the order in which they are asked
		r := []*tasks.Runner{starter, third}[i]
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
		if d.Status != mcp.TaskInputRequired || d.StatusMessage != message || strings.Contains(fmt.Sprint(d.Meta), "runnel/question") || !strings.Contains(fmt.Sprint(d.Meta), "runnel/variables") {
			t.Errorf("%+v", d)
		}
		for key := range d.InputRequests {
			answer := mcp.UpdateTaskParams{TaskID: here.ID(), InputResponses: map[string]json.RawMessage{key: json.RawMessage(`{"action":"decline"}`), "unknown": nil}}
			if _, err := r.UpdateTask(t.Context(), answer); err != nil {
				t.Error(err)
			}
			if _, err := r.UpdateTask(t.Context(), answer); err != nil { // it may be sent twice
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
	client := &asker{asked: func(*tasks.Question) (func(), error) { return func() {}, nil }} // a client that says nothing
	client.hears = func(mcp.Task) {}
	here, there := detached(t, starter, supervisor, tasks.Spec{Handle: true, Client: client}, func(_ context.Context, run *tasks.Run) tasks.Done {
		come <- ask(run, "really?")
		return tasks.Done{}
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
		if err := v.Answer(t.Context(), map[string]json.RawMessage{key: json.RawMessage(`{"action":"accept"}`)}); err != nil {
			t.Fatal(err)
		}
	}
	if got := <-come; got != `{"action":"accept"}` {
		t.Error(got)
	}
	<-there.Ended()
}

// Names of runnel's own are nobody else's to set.
func TestNotesAreRunnelsOwn(t *testing.T) {
	for patch, ok := range map[string]bool{
		`{"runnel/answer/question-1":{"result":{"action":"accept"}}}`:     false,
		`{"a":1,"\u0072unnel/progress":{}}`:                               false,
		`{"a":"\"runnel/progress\""}`:                                     true,
		`{"runnel":1}`:                                                    true,
		`{"a":` + strings.Repeat("[", 20) + strings.Repeat("]", 20) + `}`: false,
	} {
		if err := tasks.CheckVariables(json.RawMessage(patch)); (err == nil) != ok {
			t.Errorf("%s: %v", patch, err)
		}
	}
	if got := tasks.OwnVariables(json.RawMessage(`{"a":"\"runnel/progress\"","runnel/progress":{}}`)); string(got) != `{"a":"\"runnel/progress\""}` {
		t.Errorf("%s", got)
	}
}

// Notes that are only shown make room for the variables of people, which may take all of it.
func TestNotesMakeRoom(t *testing.T) {
	const limit = 1 << 20
	text := strings.Repeat(`,"`+strings.Repeat("x", 1<<15)+`"`, 31)
	full := fmt.Appendf(nil, `{"a":[%s]}`, text[1:])
	noted, err := tasks.MergeVariables(full, []byte(`{"runnel/times":[1,2],"runnel/progress":{"done":1}}`))
	if err != nil || len(noted) <= len(full) {
		t.Fatalf("with notes: %d bytes: %v", len(noted), err)
	}
	rest := fmt.Sprintf(`{"b":"%s"}`, strings.Repeat("y", limit-len(full)-len(`,"b":""`)))
	if merged, err := tasks.MergeVariables(noted, []byte(rest)); err != nil || len(merged) != limit {
		t.Fatalf("%d bytes of %d: %v", len(merged), limit, err)
	}
}
