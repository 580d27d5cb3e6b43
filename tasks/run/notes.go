package run

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks"
)

func progressNote(attempt int) string { return tasks.NotePrefix + ofAttempt(attempt, "progress") }

func timesNote(attempt int) string { return tasks.NotePrefix + ofAttempt(attempt, "times") }

func matchesNote(attempt int) string { return tasks.NotePrefix + ofAttempt(attempt, "matches") }

func passwordNote(attempt int) string { return tasks.NotePrefix + ofAttempt(attempt, "password") }

// ofAttempt is the name, or the key, under which an attempt of a task sets a note.
func ofAttempt(attempt int, name string) string {
	if attempt > 1 {
		return fmt.Sprintf("attempt-%d-%s", attempt, name)
	}
	return name
}

// questionNote is an open question.
type questionNote struct {
	mcp.InputRequest
	Message string `json:"message"`
}

// answerNote is an answer: a result, or an error that says why there is none.
type answerNote struct {
	Result json.RawMessage `json:"result,omitempty"`
	Error  *rpc.Error      `json:"error,omitempty"`
}

// notes are the notes of a task.
type notes struct {
	questions []*Question // open and unanswered, oldest first
	answers   map[string]answerNote
	progress  tasks.Progress
	times     tasks.Times
	matches   tasks.Matches
	password  *tasks.PasswordPrompt // nil = the program asks for none
	names     []string              // of all that an attempt may leave, but those of lasting questions
}

// readNotes reads the notes of an attempt from variables, and the names of those of all attempts. Damaged
// ones count as absent.
func readNotes(variables json.RawMessage, attempt int) *notes {
	n := &notes{answers: map[string]answerNote{}, matches: tasks.Matches{Attempt: attempt}}
	if !tasks.HasNotes(variables) {
		return n
	}
	for it := rawjson.Over(variables); it.Next(); {
		name := string(it.Name)
		if !strings.HasPrefix(name, tasks.NotePrefix) || name == tasks.PlaceNote || name == tasks.HandedNote ||
			name == tasks.ResumeNote || name == tasks.AboveNote || strings.HasPrefix(name, tasks.WorkPrefix) {
			continue
		}
		if lasts := strings.Contains(name, "/"+lastingKey); !lasts {
			n.names = append(n.names, name)
		}
		if key, ok := strings.CutPrefix(name, tasks.QuestionPrefix); ok {
			var q questionNote
			if (strings.HasPrefix(key, ofAttempt(attempt, questionKey)) || strings.HasPrefix(key, lastingKey)) &&
				json.Unmarshal(it.Value, &q) == nil && q.Method != "" {
				n.questions = append(n.questions, newQuestion(key, q))
			}
		} else if key, ok := strings.CutPrefix(name, tasks.AnswerPrefix); ok {
			var a answerNote
			if json.Unmarshal(it.Value, &a) == nil {
				n.answers[key] = a
			}
		} else if name == progressNote(attempt) {
			_ = json.Unmarshal(it.Value, &n.progress)
		} else if name == timesNote(attempt) {
			_ = json.Unmarshal(it.Value, &n.times)
		} else if name == matchesNote(attempt) {
			_ = json.Unmarshal(it.Value, &n.matches)
		} else if name == passwordNote(attempt) {
			_ = json.Unmarshal(it.Value, &n.password)
		}
	}
	n.questions = slices.DeleteFunc(n.questions,
		func(q *Question) bool { _, answered := n.answers[q.key]; return answered })
	slices.SortFunc(n.questions, func(a, b *Question) int { // question-10 comes after question-9
		return cmp.Or(cmp.Compare(len(a.key), len(b.key)), strings.Compare(a.key, b.key))
	})
	return n
}

func newQuestion(key string, n questionNote) *Question {
	q := &Question{Request: n.InputRequest, Message: n.Message, key: key}
	if params, is := q.form(); is {
		// The process that asks ignores an answer that does not fit, and the question would be closed here.
		q.Check = func(content json.RawMessage) error { return CheckForm(params.RequestedSchema, content) }
	}
	q.closed, q.close = context.WithCancel(context.Background())
	return q
}

// setNotes sets notes of the task, and returns its variables; null deletes a note. The notes that are left at
// its end stay: progress and times are still shown then, and the others are not used any more.
func (v *View) setNotes(ctx context.Context, patch map[string]any) (json.RawMessage, error) {
	return v.runner.SetStored(ctx, v.id, rawjson.Encode(patch))
}

// applyNotes takes over the notes of a task that another process runs: open and closed questions, progress,
// times and matches. It returns what passOn passes to the client: new questions, and the progress if it is
// new; and it reports whether there are new matches.
func (v *View) applyNotes(variables json.RawMessage) (asked []*Question, progress tasks.Progress,
	matched bool) {
	n := readNotes(variables, v.Task().Attempt)
	v.mu.Lock()
	defer v.mu.Unlock()
	asked = slices.DeleteFunc(slices.Clone(n.questions),
		func(q *Question) bool { return v.answered[q.key] || v.question(q.key) != nil })
	before := len(v.open)
	v.open = slices.DeleteFunc(v.open, func(q *Question) bool {
		gone := !slices.ContainsFunc(n.questions, func(other *Question) bool { return other.key == q.key })
		if gone {
			q.close()
		}
		return gone
	})
	if len(v.open) < before {
		v.changes.Send()
	}
	if n.progress != (tasks.Progress{}) && n.progress != v.task.Progress {
		v.task.Progress, progress = n.progress, n.progress
	}
	if n.times != nil {
		v.task.Times = n.times
	}
	if !tasks.SamePrompt(n.password, v.task.Password) {
		v.task.Password = n.password
		v.changes.Send()
	}
	if n.matches.Attempt != v.task.Matches.Attempt || n.matches.News(v.task.Matches) != "" {
		matched = n.matches.Message() != v.task.Matches.Message()
		v.setMatches(n.matches)
	}
	return asked, progress, matched
}

// passOn passes new questions and progress to the client. Call it after the status that came with them.
func (v *View) passOn(client Client, asked []*Question, progress tasks.Progress) {
	for _, q := range asked {
		q.view = v
		send, err := client.Asked(q)
		if err != nil && !q.lasts() {
			q.Refuse(v.ctx, err)
			continue
		}
		v.mu.Lock()
		q.Sent = send != nil
		v.open = append(v.open, q)
		v.mu.Unlock()
		if send != nil {
			send()
		}
	}
	if len(asked) > 0 {
		v.changes.Send()
	}
	if progress != (tasks.Progress{}) {
		client.Progress(progress)
	}
}

// reply stores answers to questions of a task that another process runs.
func (v *View) reply(ctx context.Context, answers map[string]answerNote) error {
	patch := map[string]any{}
	for key, answer := range answers {
		patch[tasks.AnswerPrefix+key] = answer
	}
	if len(patch) == 0 {
		return nil
	}
	// answers for a task that has ended are ignored.
	if _, err := v.setNotes(ctx, patch); err != nil && !errors.Is(err, tasks.ErrEnded) {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.answered == nil {
		v.answered = map[string]bool{}
	}
	for key := range answers {
		v.answered[key] = true // variables that were read before the answer was stored may still come
	}
	v.open = slices.DeleteFunc(v.open, func(q *Question) bool {
		if v.answered[q.key] {
			q.close()
		}
		return v.answered[q.key]
	})
	v.changes.Send()
	return nil
}

// forgetNotes deletes the notes that an earlier attempt has left.
func (r *Run) forgetNotes(ctx context.Context) error {
	patch := map[string]any{}
	for _, name := range readNotes(r.task.Variables, r.task.Attempt).names {
		patch[name] = nil
	}
	if len(patch) == 0 {
		return nil
	}
	left, err := r.setNotes(ctx, patch)
	if err == nil {
		r.task.Variables = left
	}
	return err
}
