package tasks

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

// A task with a ResumeNote does not fail when its keeper dies or stops: it is left as it is, with its output,
// its variables and its open questions, until another process takes it (Shared.Take) and continues it, or its
// ttl is over. What its work has done so far is in notes of its own, whose names begin with WorkPrefix.
//
// A cancel of such a task must also reach the tasks that its work has begun, which may run elsewhere: the
// work's notes name them (Begun). If the process that cancels dies in between, the one that would continue
// such a task finds that the one above it has ended (AboveNote).

const (
	// ResumeNote names what can continue the task; only the tool knows what the text means.
	ResumeNote = NotePrefix + "resume"
	// WorkPrefix begins the names of the notes by which a work knows how far it has come.
	WorkPrefix = NotePrefix + "work/"
	// AboveNote has the id of the task whose work has begun this one.
	AboveNote = NotePrefix + "above"
)

// Resumes returns what can continue a task with these variables, "" if it ends with its keeper.
func Resumes(variables json.RawMessage) string {
	if !HasNotes(variables) {
		return ""
	}
	return rawjson.StringMember(variables, ResumeNote)
}

// WaitsFor says what a task that is input_required waits for, and how its user answers: the end of a sentence
// that begins with the task.
func WaitsFor(t *Task) string {
	switch {
	case Answered(t.Variables):
		return fmt.Sprintf("has the answer to %q, and goes on when a runnel with its tool runs",
			t.StatusMessage)
	case Resumes(t.Variables) == "": // the question ends with the process that asks
		return fmt.Sprintf("waits for its user to answer %q", t.StatusMessage)
	}
	return fmt.Sprintf("waits for its user to answer %q, in a terminal with: runnel tasks answer %s",
		t.StatusMessage, t.ID)
}

// Above returns the id of the task whose work has begun one with these variables, "" if there is none. As
// long as it goes on it may read the output of the other.
func Above(variables json.RawMessage) string {
	if !HasNotes(variables) {
		return ""
	}
	return rawjson.StringMember(variables, AboveNote)
}

// Begun returns the ids of the tasks that a work has begun and whose end it has not noted: each is the member
// task of a note without a member end.
func Begun(variables json.RawMessage) (ids []string) {
	if Resumes(variables) == "" {
		return nil
	}
	for it := rawjson.Over(variables); it.Next(); {
		if strings.HasPrefix(string(it.Name), WorkPrefix) && rawjson.Member(it.Value, "end") == nil {
			if id := rawjson.StringMember(it.Value, "task"); id != "" {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// LeftAt reports whether a task that has lost its keeper is left to others at a time: it resumes, and its ttl
// is not over.
func (t *Task) LeftAt(now time.Time) bool {
	return !t.Status.Terminal() && Resumes(t.Variables) != "" && now.Before(t.CreatedAt.Round(0).Add(t.TTL))
}

// StoppedMessage is the status message of a task that has failed because its runner was closed.
const StoppedMessage = "runnel was stopped, as when the host closes the session; a tool with detach: " +
	"always goes on"

// Interrupted reports whether the task has failed with the process that ran it, and not by itself. What its
// status message says does not count: another server's may say the same.
func (t *Task) Interrupted() bool {
	return t.Status == mcp.TaskFailed && t.Outcome != nil && t.Outcome.Interrupted
}
