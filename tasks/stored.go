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
	"runnel/rpc/rawjson"
)

// Every state that outlives the process stores this about a task, and checks it when it reads it: a bit may
// have flipped, or somebody may have edited it. Such a task becomes a failed one that says why.

// storedOutcome is an Outcome as it is stored.
type storedOutcome struct {
	Result *mcp.CallToolResult `json:"result,omitempty"`
	Error  *rpc.Error          `json:"error,omitempty"`
	// Rest is what the result has beyond the output (partials.Ending).
	Rest        []json.RawMessage `json:"rest,omitempty"`
	IsError     bool              `json:"isError,omitempty"`
	Interrupted bool              `json:"interrupted,omitempty"`
}

// EncodeOutcome encodes a task's outcome and the ending of its segments; nil if the task has no outcome yet.
// A state stores the result.
func EncodeOutcome(t *Task) ([]byte, error) {
	if t.Outcome == nil {
		return nil, nil
	}
	s := storedOutcome{Result: t.Outcome.Result, Error: t.Outcome.Err, Interrupted: t.Outcome.Interrupted}
	if ending := t.Segments.Ending(); ending != nil {
		s.IsError, s.Rest = ending.IsError, ending.Rest
	}
	encoded, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encoding the outcome: %w", err)
	}
	return encoded, nil
}

// DecodeOutcome decodes what EncodeOutcome has encoded. Its error says to people what is wrong.
// A state calls it when it reads a task.
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
	return &Outcome{Result: s.Result, Err: s.Error, Interrupted: s.Interrupted},
		&partials.Ending{Rest: s.Rest, IsError: s.IsError}, nil
}

// DecodeVariables checks stored variables.
// A state calls it when it reads them.
func DecodeVariables(stored []byte) (json.RawMessage, error) {
	if len(stored) == 0 {
		return nil, nil
	}
	if !isObject(stored) {
		return nil, errors.New("its variables cannot be read")
	}
	return stored, nil
}

// DecodeArguments returns stored arguments, nil if they are damaged: nothing depends on them.
// A state calls it when it reads them.
func DecodeArguments(stored []byte) json.RawMessage {
	if !isObject(stored) {
		return nil
	}
	return stored
}

// isObject reports whether a stored value is a JSON object that can stand on a line of output.
func isObject(stored []byte) bool {
	_, ok := rawjson.Scan(stored)
	return ok && rawjson.IsObject(stored) && bytes.IndexByte(stored, '\n') < 0
}

// isLine reports whether JSON can stand on a line of output.
func isLine(b []byte) bool { return utf8.Valid(b) && bytes.IndexByte(b, '\n') < 0 }

// CheckStored returns an error if a stored task is damaged. kept says whether it has a keeper, stored whether
// it has an outcome. A state calls it on everything that it reads.
func (t *Task) CheckStored(kept, stored bool) error {
	for _, s := range []*string{&t.StatusMessage, &t.Worker} {
		*s = Clip(strings.ToValidUTF8(*s, "�"))
	}
	switch {
	case !t.Status.Terminal() && t.Status != mcp.TaskWorking && t.Status != mcp.TaskInputRequired:
		return fmt.Errorf("its status is %q", Clip(string(t.Status)))
	case !t.Status.Terminal() && !kept:
		return errors.New("it is working, but no process runs it")
	case t.Status.Terminal() && !stored:
		return errors.New("it has ended, but its result is missing")
	case t.TTL <= 0:
		return fmt.Errorf("its ttl is %v", t.TTL)
	}
	return nil
}

// FailDamaged makes the task a failed one that says why it cannot be read, and returns how its output ends.
// A state calls it where CheckStored, or its own check, has failed.
func (t *Task) FailDamaged(why error) *partials.Ending {
	message := "the state is damaged, and the result of this task with it: " + why.Error()
	t.Status = mcp.TaskFailed
	t.StatusMessage = message
	t.Merge = false
	t.Outcome = &Outcome{Err: rpc.Errorf(mcp.CodeInternalError, "%s", message)}
	return &partials.Ending{Rest: []mcp.ContentBlock{mcp.Text(message)}, IsError: true}
}

// FailOrphan fails a task whose keeper is gone: the result is the end of its output, t.Log, and a message
// that says so. A state calls it when it recovers.
func (t *Task) FailOrphan(ctx context.Context) {
	what := "the runnel that ran this task is gone"
	switch {
	case t.Worker != "" && t.Attempt > 1:
		what = fmt.Sprintf("the worker %s died in attempt %d of this task", t.Worker, t.Attempt)
	case t.Worker != "":
		what = "the worker " + t.Worker + " died"
	case t.Detached:
		what = "the supervisor that ran this detached task is gone"
	}
	t.EndUnkept(ctx, mcp.TaskFailed, what+" (killed, or it crashed); the output up to then is kept")
	t.Outcome.Interrupted = true
}

// EndUnkept ends a task that no process runs: the result is the end of its output, t.Log, and the message.
// A state calls it for a task that waits for a worker.
func (t *Task) EndUnkept(ctx context.Context, status mcp.TaskStatus, message string) {
	t.Status, t.StatusMessage = status, Clip(message)
	last := mcp.Text(t.StatusMessage)
	t.Outcome = &Outcome{Result: &mcp.CallToolResult{IsError: true,
		Content: append(LastOutput(ctx, t.Log), last)}}
	t.Segments = partials.NewSegments(t.Log)
	t.Segments.Finish(partials.Ending{Rest: []mcp.ContentBlock{last}, IsError: true})
}

// Newer is what a state has stored about a task that another process runs.
// A state makes one in Watch, for Task.Update.
type Newer struct {
	Task
	Ending *partials.Ending // how its output ended; nil if it has not
	End    int64            // where its log ends
	Output partials.Backing // reads what is stored of its log
	// Ends returns where its segments after number n end, up to End; segment n ends at position last. It
	// fails with partials.ErrEnds if they are damaged.
	Ends func(ctx context.Context, n int, last int64) ([]int64, error)
}

// lookBytes is how much new output a followed log takes into memory at once: as much as it keeps.
const lookBytes = 256 << 10

// Update brings a followed task up to date, with its log and its segments, and reports whether there is
// anything new for its followers. A state calls it in Watch.
func (t *Task) Update(ctx context.Context, now Newer) (bool, error) {
	n, last := t.Segments.Numbered()
	grows := now.End > t.Log.Size()
	// A state may store numbers a moment later than their output.
	owed := (now.Merge || now.Detached) && last < now.End
	var tail []partials.Extent
	var ends []int64
	var err error
	if grows && t.Log.Follows(now.End) {
		// The first extent may begin earlier.
		if tail, err = now.Output.Load(ctx, max(t.Log.Size(), now.End-lookBytes), 2*lookBytes); err != nil {
			return false, err
		}
		for n := len(tail); n > 0 && tail[n-1].End() > now.End; n-- {
			tail = tail[:n-1] // written since then
		}
	}
	if grows || owed {
		if ends, err = now.Ends(ctx, n, last); errors.Is(err, partials.ErrEnds) {
			now.Ending = now.FailDamaged(err)
		} else if err != nil {
			return false, err
		}
		if err := t.Segments.Grow(now.End, tail, ends); err != nil {
			return false, err
		}
	}
	if now.Ending != nil {
		t.Segments.Finish(*now.Ending)
	}
	changed := grows || len(ends) > 0 || t.Status != now.Status || t.StatusMessage != now.StatusMessage ||
		!bytes.Equal(t.Variables, now.Variables)
	now.Log = t.Log
	now.Segments = t.Segments
	now.Arguments = t.Arguments
	*t = now.Task
	return changed, nil
}
