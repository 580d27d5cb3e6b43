package tasks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"runnel/partials"
	"runnel/rpc"
	"runnel/rpc/mcp"
)

// Every state that outlives the process stores this of a task, and checks it where it reads it: a bit may have flipped, or somebody may
// have edited it. Such a task has failed, and says why.

// storedOutcome is an Outcome as it is stored.
type storedOutcome struct {
	Result *mcp.CallToolResult `json:"result,omitempty"`
	Error  *rpc.Error          `json:"error,omitempty"`
	// Rest is what the result has beyond the output (partials.Ending).
	Rest    []json.RawMessage `json:"rest,omitempty"`
	IsError bool              `json:"isError,omitempty"`
}

// EncodeOutcome returns a task's outcome, with the ending of its segments, as a state stores it; nil if the task has none yet.
func EncodeOutcome(t *Task) ([]byte, error) {
	if t.Outcome == nil {
		return nil, nil
	}
	s := storedOutcome{Result: t.Outcome.Result, Error: t.Outcome.Err}
	if ending := t.Segments.Ending(); ending != nil {
		s.IsError, s.Rest = ending.IsError, ending.Rest
	}
	encoded, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encoding the outcome: %w", err)
	}
	return encoded, nil
}

// DecodeOutcome reads what EncodeOutcome has written; the error says for people what is wrong with it.
func DecodeOutcome(encoded []byte) (*Outcome, *partials.Ending, error) {
	if len(encoded) == 0 {
		return nil, nil, nil
	}
	var s storedOutcome
	if err := json.Unmarshal(encoded, &s); err != nil {
		return nil, nil, fmt.Errorf("its result cannot be read: %w", err)
	}
	if (s.Result == nil) == (s.Error == nil) || !isLine(encoded) {
		return nil, nil, errors.New("its result cannot be read")
	}
	return &Outcome{Result: s.Result, Err: s.Error}, &partials.Ending{Rest: s.Rest, IsError: s.IsError}, nil
}

// DecodeVariables checks variables as they were stored.
func DecodeVariables(stored []byte) (json.RawMessage, error) {
	if len(stored) == 0 {
		return nil, nil
	}
	if !isLine(stored) || stored[0] != '{' || !json.Valid(stored) {
		return nil, errors.New("its variables cannot be read")
	}
	return stored, nil
}

// DecodeArguments returns arguments as they were stored, nil if they cannot be believed: nothing depends on them.
func DecodeArguments(stored []byte) json.RawMessage {
	if len(stored) == 0 || !isLine(stored) || stored[0] != '{' || !json.Valid(stored) {
		return nil
	}
	return stored
}

// isLine reports whether JSON can stand on a line of output.
func isLine(b []byte) bool { return utf8.Valid(b) && bytes.IndexByte(b, '\n') < 0 }

// CheckStored finds what is wrong with a task as it was stored. kept reports whether it has a keeper, stored whether it has an outcome.
func (t *Task) CheckStored(kept, stored bool) error {
	t.StatusMessage = Clip(strings.ToValidUTF8(t.StatusMessage, "�"))
	switch {
	case !t.Status.Terminal() && t.Status != mcp.TaskWorking && t.Status != mcp.TaskInputRequired:
		return fmt.Errorf("its status is %q", Clip(string(t.Status)))
	case !t.Status.Terminal() && !kept:
		return errors.New("it works, but nobody runs it")
	case t.Status.Terminal() && !stored:
		return errors.New("it has ended, but its result is missing")
	case t.TTL <= 0:
		return fmt.Errorf("its ttl is %v", t.TTL)
	}
	return nil
}

// FailDamaged makes a task a failed one that says why it cannot be read, and returns how its output ends.
func (t *Task) FailDamaged(why error) *partials.Ending {
	message := "the state is damaged, and the result of this task with it: " + why.Error()
	t.Status, t.StatusMessage, t.Merge = mcp.TaskFailed, message, false
	t.Outcome = &Outcome{Err: rpc.Errorf(mcp.CodeInternalError, "%s", message)}
	return &partials.Ending{Rest: []mcp.ContentBlock{mcp.Text(message)}, IsError: true}
}

// FailOrphan makes a task whose keeper is gone a failed one: its result is the end of its output, t.Log, and that it was cut off.
func (t *Task) FailOrphan(ctx context.Context) {
	who := "the runnel that ran this task"
	switch {
	case t.Worker != "" && t.Attempt > 1:
		who = fmt.Sprintf("the worker on %s that ran attempt %d of this task", t.Worker, t.Attempt)
	case t.Worker != "":
		who = "the worker on " + t.Worker + " that ran this task"
	case t.Detached:
		who = "the supervisor that ran this detached task"
	}
	t.EndUnkept(ctx, mcp.TaskFailed, who+" is gone (killed, or it crashed); the output up to then is kept")
}

// EndUnkept ends a task that no process runs: its result is the end of its output, t.Log, and the message.
func (t *Task) EndUnkept(ctx context.Context, status mcp.TaskStatus, message string) {
	t.Status, t.StatusMessage = status, Clip(message)
	last := mcp.Text(t.StatusMessage)
	t.Outcome = &Outcome{Result: &mcp.CallToolResult{IsError: true, Content: append(Remains(ctx, t.Log), last)}}
	t.Segments = partials.NewSegments(t.Log)
	t.Segments.Finish(partials.Ending{Rest: []mcp.ContentBlock{last}, IsError: true})
}
