package tasks_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/tasks"
)

// A task was interrupted if runnel has said so, and stored it; not if its message says the same.
func TestInterrupted(t *testing.T) {
	log := partials.NewLog(nil)
	orphan := tasks.Task{Status: mcp.TaskWorking, Log: log, Segments: partials.NewSegments(log)}
	orphan.FailOrphan(t.Context())
	relayed := orphan
	relayed.Outcome = &tasks.Outcome{Result: orphan.Outcome.Result}
	for range 2 {
		for _, task := range []tasks.Task{orphan, relayed} {
			want := task.Outcome == orphan.Outcome
			encoded, err := tasks.EncodeOutcome(&task)
			if err != nil {
				t.Fatal(err)
			}
			if task.Outcome, _, err = tasks.DecodeOutcome(encoded); err != nil || task.Interrupted() != want {
				t.Errorf("%q was interrupted: %t, %v", task.StatusMessage, !want, err)
			}
		}
	}
}

// What a work has begun and not noted the end of is in its notes, if it goes on elsewhere.
func TestBegun(t *testing.T) {
	const notes = `"runnel/work/a.1":{"task":"one"},"runnel/work/a.2":{"task":"two","end":"completed"},"runnel/work/b":{"end":"failed"},"runnel/work/.taken":"x","b":{"task":"three"}`
	for variables, want := range map[string][]string{`{"runnel/resume":"tool",` + notes + `}`: {"one"}, `{` + notes + `}`: nil, ``: nil} {
		if got := tasks.Begun(json.RawMessage(variables)); !slices.Equal(got, want) {
			t.Errorf("%s: %q", variables, got)
		}
	}
}

// A task says what it waits for: its user, or, if all that any process can ask is answered, a process that runs it.
func TestWaitsFor(t *testing.T) {
	const one, two = `"runnel/question/for-ok":{"message":"Sure?"}`, `"runnel/question/question-2":{"message":"Which?"}`
	const answer = `,"runnel/answer/for-ok":{"result":{}}`
	for variables, want := range map[string]string{
		``:                            `waits for its user to answer "Sure?"`,
		`{` + one + `}`:               `waits for its user to answer "Sure?"`,
		`{"runnel/resume":"release"}`: `waits for its user to answer "Sure?", in a terminal with: runnel tasks answer x`,
		`{"runnel/resume":"release",` + one + answer + `,` + two + `}`: `waits for its user to answer "Sure?", in a terminal with: runnel tasks answer x`,
		`{"runnel/resume":"release",` + one + answer + `}`:             `has the answer to "Sure?", and goes on when a runnel with its tool runs`,
	} {
		task := tasks.Task{ID: "x", Status: mcp.TaskInputRequired, StatusMessage: "Sure?", Variables: json.RawMessage(variables)}
		if got := tasks.WaitsFor(&task); got != want {
			t.Errorf("%s: %s", variables, got)
		}
	}
}

// Of a task that goes on elsewhere, people's variables and the notes of its work have half of the room each.
func TestRoomForNotes(t *testing.T) {
	work := func(n int) string {
		return fmt.Sprintf(`{"runnel/resume":"tool","runnel/work/a":"%s"}`, strings.Repeat("x", n<<10))
	}
	own := func(n int) string { return `{"own":["` + strings.Repeat(strings.Repeat("x", 1<<10)+`","`, n) + `"]}` }
	for _, c := range []struct{ current, patch, says string }{
		{work(500), own(500), ""},
		{own(500), work(500), ""},
		{work(1), own(520), "the variables take"},
		{own(520), work(1), "the variables take"},
		{own(1), work(520), "use fewer items at a time"},
		{`{}`, own(1000), ""},
	} {
		_, err := tasks.MergeVariables(json.RawMessage(c.current), json.RawMessage(c.patch))
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%.20s and %.20s: %v, want %q", c.current, c.patch, err, c.says)
		}
	}
}
