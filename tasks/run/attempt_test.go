package run

import (
	"encoding/json"
	"testing"

	"runnel/tasks"
)

// What a worker notes that was taken for dead is not taken for what the next attempt notes, whichever comes
// last.
func TestNotesOfAnotherAttempt(t *testing.T) {
	variables := json.RawMessage(`{
		"runnel/progress": {"Done": 1}, "runnel/times": [1000, 1], "runnel/question/question-1": {"method": "elicitation/create", "message": "first?"},
		"runnel/attempt-2-progress": {"Done": 2}, "runnel/attempt-2-times": [2000, 2], "runnel/question/attempt-2-question-1": {"method": "elicitation/create", "message": "second?"}
	}`)
	for attempt, want := range map[int]struct {
		number   float64
		question string
	}{0: {1, "first?"}, 1: {1, "first?"}, 2: {2, "second?"}, 3: {0, ""}} {
		task := tasks.Task{Variables: variables, Attempt: attempt}
		showNotes(&task)
		question := ""
		for _, q := range readNotes(variables, attempt).questions {
			question += q.Message
		}
		bytes := int64(0)
		for _, s := range task.Times {
			bytes += s.Bytes
		}
		if task.Progress.Done != want.number || float64(bytes) != want.number || question != want.question {
			t.Errorf("attempt %d: %+v, %v, %q", attempt, task.Progress, task.Times, question)
		}
	}
	if n := len(readNotes(variables, 3).names); n != 6 {
		t.Errorf("%d are left for good", n)
	}
}
