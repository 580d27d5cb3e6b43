package tasks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"time"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

// A task's variables are a small JSON object that both its tool and its client can read and set.

// These limits on a task's variables are those of PMCP.
const (
	maxVariables     = 1 << 20  // bytes of all of them, encoded
	maxVariableText  = 64 << 10 // bytes of one string, also of a name
	maxVariableDepth = 10       // objects and lists, including the outermost
)

// CheckVariables returns an *rpc.Error if people or tools may not set a patch: it exceeds a limit, or uses a
// name that runnel reserves. Call it before MergeVariables on a patch that comes from outside.
func CheckVariables(patch json.RawMessage) error {
	if err := checkVariables(patch); err != nil {
		return rpc.Errorf(mcp.CodeInvalidParams, "%v", err)
	}
	for it := rawjson.Over(patch); it.Next(); {
		if strings.HasPrefix(string(it.Name), NotePrefix) {
			return rpc.Errorf(mcp.CodeInvalidParams,
				"%.100q: names that begin with %s are reserved for runnel: use another one", it.Name,
				NotePrefix)
		}
	}
	return nil
}

// MergeVariables applies patch, an encoded object, to current (nil = empty); null deletes a member. An empty
// result is nil. An *rpc.Error says what is wrong with the patch. The limits are 1 MiB encoded, 10 levels,
// and 64 KiB for a string.
// A state calls it in SetVariables.
func MergeVariables(current, patch json.RawMessage) (json.RawMessage, error) {
	merged, err := mergeVariables(current, patch)
	if err != nil {
		return nil, rpc.Errorf(mcp.CodeInvalidParams, "%v", err)
	}
	return merged, nil
}

func mergeVariables(current, patch json.RawMessage) (json.RawMessage, error) {
	merged, set := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	if !HasNotes(patch) || json.Unmarshal(patch, &set) != nil || !onlyNotes(set) {
		if err := checkVariables(patch); err != nil {
			return nil, err
		}
	}
	if len(current) > 0 {
		if err := json.Unmarshal(current, &merged); err != nil {
			return nil, fmt.Errorf("reading variables: %w", err)
		}
	}
	if err := json.Unmarshal(patch, &set); err != nil {
		return nil, fmt.Errorf("variables: %w", err)
	}
	for name, value := range set {
		if string(value) == "null" {
			delete(merged, name)
		} else {
			merged[name] = value
		}
	}
	// A work that goes on elsewhere needs its notes, and gets half for them: neither it nor people can use up
	// what the other needs.
	limit, work := maxVariables, 0
	if merged[ResumeNote] != nil {
		limit = maxVariables / 2
		for name, value := range merged {
			if strings.HasPrefix(name, WorkPrefix) {
				work += len(name) + len(value) + len(`"":,`)
			}
		}
	}
	encoded, err := json.Marshal(merged)
	// Progress and times go first: people and questions need the rest.
	if err == nil && len(encoded)-work > limit {
		maps.DeleteFunc(merged, func(name string, _ json.RawMessage) bool {
			return strings.HasPrefix(name, NotePrefix) && !strings.HasPrefix(name, QuestionPrefix) &&
				!strings.HasPrefix(name, AnswerPrefix) && !strings.HasPrefix(name, InputPrefix) &&
				!strings.HasPrefix(name, WorkPrefix) && name != ResumeNote && name != AboveNote
		})
		encoded, err = json.Marshal(merged)
	}
	if len(merged) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("encoding variables: %w", err)
	}
	if work > limit {
		return nil, fmt.Errorf("the notes with which this call could go on in another process, and its "+
			"arguments, take %d bytes; the limit is %d: use fewer items at a time",
			work, limit)
	}
	if rest := len(encoded) - work; rest > limit {
		return nil, fmt.Errorf("the variables take %d bytes together; the limit is %d", rest, limit)
	}
	return encoded, nil
}

// checkVariables checks an object against the limits without decoding it as a whole.
func checkVariables(patch json.RawMessage) error {
	if len(patch) > maxVariables {
		return fmt.Errorf("the variables take %d bytes; the limit is %d", len(patch), maxVariables)
	}
	d := json.NewDecoder(bytes.NewReader(patch))
	d.UseNumber()
	depth := 0
	for first := true; ; first = false {
		token, err := d.Token()
		if err == io.EOF && !first {
			return nil
		} else if err != nil {
			return errors.New("the variables are not a JSON object")
		}
		switch v := token.(type) {
		case json.Delim:
			if v == '{' || v == '[' {
				depth++
			} else {
				depth--
			}
			if depth > maxVariableDepth {
				return fmt.Errorf("the variables are nested more than %d deep", maxVariableDepth)
			}
		case string:
			if len(v) > maxVariableText {
				return fmt.Errorf("a string of the variables takes %d bytes; the limit is %d", len(v),
					maxVariableText)
			}
		}
		if first && token != json.Delim('{') {
			return errors.New("the variables are not a JSON object")
		}
	}
}

// OfKeeper reports whether a patch sets or deletes notes that belong to the work of the process that runs the
// task: what it has done, and its questions. A State refuses them from every other process with ErrFenced,
// also from one that ran the task before.
func OfKeeper(patch []byte) bool {
	return bytes.Contains(patch, []byte(`"`+WorkPrefix)) ||
		bytes.Contains(patch, []byte(`"`+ResumeNote+`"`)) || bytes.Contains(patch, []byte(`"`+QuestionPrefix))
}

// A process that has taken a task has no client. It stores questions and progress as notes: members of the
// task's variables with names that begin with NotePrefix. Every state keeps and announces them. Followers of
// the task read the questions, and answer them with notes. People and tools see the variables without notes
// (OwnVariables), and cannot set notes (CheckVariables).
//
//	runnel/question/KEY  set by the process that runs the task: an open question
//	runnel/answer/KEY    set by a follower: the first answer counts
//	runnel/progress      set by the process that runs the task: its progress
//	runnel/times         set by the process that runs the task: when its output came
//	runnel/matches       set by the process that runs the task: what its tool has found in its output
//	runnel/password      set by the process that runs the task: its program asks for a password
//	runnel/place         there from the start: where the process that made the task works (run.Options.Place)
//	runnel/input/KEY     set by a follower: input for a task that takes some, which the process that runs it deletes
//	runnel/resume        set by the process that runs the task: it can be continued (Run.Remember of package run)
//	runnel/above         there from the start: the id of the task whose work has begun this one
//	runnel/work/NAME     set by the process that runs the task: what its work has done, for the one that continues it
//	runnel/handed        set by the process that made the task: the client of an Attached offer has got its id
//
// Every process sets progress, times, matches and place for the tasks that it runs, so that others see them,
// now or later. From a task's second attempt on, KEY, progress, times and matches begin with "attempt-N-": a
// worker that was believed dead may still write, and is ignored. Package run reads and writes them.
const (
	NotePrefix     = "runnel/"
	QuestionPrefix = NotePrefix + "question/"
	AnswerPrefix   = NotePrefix + "answer/"
	InputPrefix    = NotePrefix + "input/"
	PlaceNote      = NotePrefix + "place"
	HandedNote     = NotePrefix + "handed"
)

// HasNotes reports whether there may be notes among variables. Most tasks have none, and their variables need
// not be decoded.
func HasNotes(variables json.RawMessage) bool {
	return bytes.Contains(variables, []byte(`"`+NotePrefix))
}

// Asks reports whether variables have a question that any process can answer, and no answer to it.
func Asks(variables json.RawMessage) bool {
	open, _ := questions(variables)
	return open > 0
}

// Answered reports whether variables have such questions, and the answers to all: the process that runs the
// task has not found them yet, or no process runs it.
func Answered(variables json.RawMessage) bool {
	open, answered := questions(variables)
	return open == 0 && answered > 0
}

// questions counts the questions that any process can answer.
func questions(variables json.RawMessage) (open, answered int) {
	if !HasNotes(variables) {
		return 0, 0
	}
	for it := rawjson.Over(variables); it.Next(); {
		if key, is := strings.CutPrefix(string(it.Name), QuestionPrefix); !is {
			continue
		} else if rawjson.Member(variables, AnswerPrefix+key) == nil {
			open++
		} else {
			answered++
		}
	}
	return open, answered
}

// Handed reports whether variables have the HandedNote.
func Handed(variables json.RawMessage) bool {
	return HasNotes(variables) && rawjson.Member(variables, HandedNote) != nil
}

// OwnVariables returns variables without notes; nil if nothing is left.
func OwnVariables(variables json.RawMessage) json.RawMessage {
	if !HasNotes(variables) {
		return variables
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(variables, &members) != nil {
		return nil
	}
	for name := range members {
		if strings.HasPrefix(name, NotePrefix) {
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
		if !strings.HasPrefix(name, NotePrefix) {
			return false
		}
	}
	return len(patch) > 0
}

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
