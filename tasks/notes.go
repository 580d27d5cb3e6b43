package tasks

import (
	"bytes"
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
)

// A process that has taken a task has no client. It stores questions and progress as notes: members of the
// task's variables with names that begin with notePrefix. Every state keeps and announces them. Followers of
// the task read the questions, and answer them with notes. People and tools see the variables without notes
// (OwnVariables), and cannot set notes (CheckVariables).
//
//	runnel/question/KEY  set by the process that runs the task: an open question
//	runnel/answer/KEY    set by a follower: the first answer counts
//	runnel/progress      set by the process that runs the task: its progress
//	runnel/times         set by the process that runs the task: when its output came (times.go)
//	runnel/dir           there from the start: the directory of the process that made the task
//
// Every process sets the last three for the tasks that it runs, so that others see them, now or later. From a
// task's second attempt on, KEY, progress and times begin with "attempt-N-": a worker that was believed dead
// may still write, and is ignored (ofAttempt).
const (
	notePrefix     = "runnel/"
	questionPrefix = notePrefix + "question/"
	answerPrefix   = notePrefix + "answer/"
	dirNote        = notePrefix + "dir"
)

func progressNote(attempt int) string { return notePrefix + ofAttempt(attempt, "progress") }

func timesNote(attempt int) string { return notePrefix + ofAttempt(attempt, "times") }

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
	progress  Progress
	times     Times
	names     []string // of all notes
}

// hasNotes reports whether there may be notes among variables. Most tasks have none, and their variables need
// not be decoded.
func hasNotes(variables json.RawMessage) bool {
	return bytes.Contains(variables, []byte(`"`+notePrefix))
}

// readNotes reads the notes of an attempt from variables, and the names of all notes. Damaged ones count as
// absent.
func readNotes(variables json.RawMessage, attempt int) *notes {
	n := &notes{answers: map[string]answerNote{}}
	if !hasNotes(variables) {
		return n
	}
	for it := rawjson.Over(variables); it.Next(); {
		name := string(it.Name)
		if !strings.HasPrefix(name, notePrefix) {
			continue
		}
		n.names = append(n.names, name)
		if key, ok := strings.CutPrefix(name, questionPrefix); ok {
			var q questionNote
			if strings.HasPrefix(key, ofAttempt(attempt, questionKey)) && json.Unmarshal(it.Value, &q) == nil && q.Method != "" {
				n.questions = append(n.questions, newQuestion(key, q))
			}
		} else if key, ok := strings.CutPrefix(name, answerPrefix); ok {
			var a answerNote
			if json.Unmarshal(it.Value, &a) == nil {
				n.answers[key] = a
			}
		} else if name == progressNote(attempt) {
			_ = json.Unmarshal(it.Value, &n.progress)
		} else if name == timesNote(attempt) {
			_ = json.Unmarshal(it.Value, &n.times)
		}
	}
	n.questions = slices.DeleteFunc(n.questions, func(q *Question) bool { _, answered := n.answers[q.key]; return answered })
	slices.SortFunc(n.questions, func(a, b *Question) int { // question-10 comes after question-9
		return cmp.Or(cmp.Compare(len(a.key), len(b.key)), strings.Compare(a.key, b.key))
	})
	return n
}

func newQuestion(key string, n questionNote) *Question {
	q := &Question{Request: n.InputRequest, Message: n.Message, key: key}
	q.closed, q.close = context.WithCancel(context.Background())
	return q
}

// OwnVariables returns variables without notes; nil if nothing is left.
func OwnVariables(variables json.RawMessage) json.RawMessage {
	if !hasNotes(variables) {
		return variables
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(variables, &members) != nil {
		return nil
	}
	for name := range members {
		if strings.HasPrefix(name, notePrefix) {
			delete(members, name)
		}
	}
	if len(members) == 0 {
		return nil
	}
	return rawjson.Encode(members)
}

// onlyNotes reports whether a patch sets notes and nothing else: the limits of variables do not apply to
// notes.
func onlyNotes(patch map[string]json.RawMessage) bool {
	for name := range patch {
		if !strings.HasPrefix(name, notePrefix) {
			return false
		}
	}
	return len(patch) > 0
}

// setNotes sets notes of the task, and returns its variables; null deletes a note. The notes that are left at
// its end stay: progress and times are still shown then, and the others are not used any more.
func (v *View) setNotes(ctx context.Context, patch map[string]any) (json.RawMessage, error) {
	return v.runner.setStored(ctx, v.id, rawjson.Encode(patch))
}

// applyNotes takes over the notes of a task that another process runs: open and closed questions, progress
// and times. It returns what passOn passes to the client: new questions, and the progress if it is new.
func (v *View) applyNotes(variables json.RawMessage) (asked []*Question, progress Progress) {
	n := readNotes(variables, v.Task().Attempt)
	v.mu.Lock()
	defer v.mu.Unlock()
	asked = slices.DeleteFunc(slices.Clone(n.questions), func(q *Question) bool { return v.answered[q.key] || v.question(q.key) != nil })
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
	if n.progress != (Progress{}) && n.progress != v.task.Progress {
		v.task.Progress, progress = n.progress, n.progress
	}
	if n.times != nil {
		v.task.Times = n.times
	}
	return asked, progress
}

// passOn passes new questions and progress to the client. Call it after the status that came with them.
func (v *View) passOn(client Client, asked []*Question, progress Progress) {
	for _, q := range asked {
		q.view = v
		send, err := client.Asked(q)
		if err != nil {
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
	if progress != (Progress{}) {
		client.Progress(progress)
	}
}

// reply stores answers to questions of a task that another process runs.
func (v *View) reply(ctx context.Context, answers map[string]answerNote) error {
	patch := map[string]any{}
	for key, answer := range answers {
		patch[answerPrefix+key] = answer
	}
	if len(patch) == 0 {
		return nil
	}
	if _, err := v.setNotes(ctx, patch); err != nil && !errors.Is(err, ErrEnded) { // answers for a task that has ended are ignored
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
