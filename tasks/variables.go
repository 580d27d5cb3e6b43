package tasks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

// A task's variables are a small JSON object that its tool and its client both read and set.

// Limits of a task's variables, those of PMCP.
const (
	maxVariables     = 1 << 20  // bytes of all of them, encoded
	maxVariableText  = 64 << 10 // bytes of one string, also of a name
	maxVariableDepth = 10       // of objects and lists, the outermost included
)

// MergeVariables sets in an encoded object (nil = empty) what patch, another, says; null deletes a key. An object that is empty
// then is nil. An error says what is wrong with the patch, such as a limit: 1 MiB encoded, 10 levels, 64 KiB for a string.
// Nothing is changed then.
func MergeVariables(current, patch json.RawMessage) (json.RawMessage, error) {
	if err := checkVariables(patch); err != nil {
		return current, err
	}
	merged, set := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	if len(current) > 0 {
		if err := json.Unmarshal(current, &merged); err != nil {
			return current, fmt.Errorf("reading variables: %w", err)
		}
	}
	if err := json.Unmarshal(patch, &set); err != nil {
		return current, fmt.Errorf("variables: %w", err)
	}
	for name, value := range set {
		if string(value) == "null" {
			delete(merged, name)
		} else {
			merged[name] = value
		}
	}
	if len(merged) == 0 {
		return nil, nil
	}
	encoded, err := json.Marshal(merged)
	if err != nil {
		return current, fmt.Errorf("encoding variables: %w", err)
	}
	if len(encoded) > maxVariables {
		return current, fmt.Errorf("the variables take %d bytes together; the limit is %d", len(encoded), maxVariables)
	}
	return encoded, nil
}

// checkVariables holds an object against the limits without decoding it whole.
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
			return errors.New("the variables are no JSON object")
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
				return fmt.Errorf("a string of the variables takes %d bytes; the limit is %d", len(v), maxVariableText)
			}
		}
		if first && token != json.Delim('{') {
			return errors.New("the variables are no JSON object")
		}
	}
}

// SetVariables merges a patch into the task's variables and returns them all. It fails with ErrEnded, when the patch cannot be
// merged (see MergeVariables), and when the variables cannot be stored.
func (r *Run) SetVariables(ctx context.Context, patch json.RawMessage) (json.RawMessage, error) {
	// One at a time, so that the store does not get an older state last.
	r.door.Lock()
	defer r.door.Unlock()
	r.mu.Lock()
	if r.finishing {
		r.mu.Unlock()
		return nil, ErrEnded
	}
	t, handle := r.task, r.handle
	r.mu.Unlock()
	merged, err := r.runner.mergeVariables(ctx, &t, handle, patch)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.task.Variables = merged
	return merged, nil
}

// mergeVariables merges a patch into the variables of a task, where they are kept.
func (r *Runner) mergeVariables(ctx context.Context, t *Task, handle bool, patch json.RawMessage) (json.RawMessage, error) {
	if !handle {
		merged, err := MergeVariables(t.Variables, patch)
		if err != nil {
			err = rpc.Errorf(mcp.CodeInvalidParams, "%v", err)
		}
		return merged, err
	}
	merged, err := r.o.State.SetVariables(ctx, t.Owner, t.ID, patch)
	var wire *rpc.Error
	if err != nil && !errors.Is(err, ErrEnded) && !errors.As(err, &wire) {
		err = rpc.Errorf(mcp.CodeInternalError, "the variables could not be stored: %v", err)
	}
	return merged, err
}

// Variables are the task's variables, an encoded object; nil if there are none.
func (r *Run) Variables() json.RawMessage {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.task.Variables
}

// setVariables answers runnel/tasks/variables: with the variables, after it has set some if it shall.
func (r *Runner) setVariables(ctx context.Context, _ *rpc.Caller, params json.RawMessage) (any, error) {
	var p struct {
		TaskID string          `json:"taskId"`
		Set    json.RawMessage `json:"set"`
	}
	if err := rawjson.Unmarshal(params, &p); err != nil || p.TaskID == "" {
		return nil, rpc.Errorf(mcp.CodeInvalidParams, "params must be {\"taskId\": a task's id, \"set\": an object}; without set the variables are only shown")
	}
	run := r.Running(p.TaskID)
	if run != nil && len(p.Set) > 0 {
		return setAnswer(run.SetVariables(ctx, p.Set))
	}
	t, err := r.Get(ctx, p.TaskID)
	switch {
	case err != nil:
		return nil, WireError(err)
	case len(p.Set) == 0:
		return shownVariables(t.Variables), nil
	case t.Detached && !t.Status.Terminal():
		return setAnswer(r.mergeVariables(ctx, &t, true, p.Set))
	}
	return nil, rpc.Errorf(mcp.CodeInvalidParams, "the variables of a task can be set while it runs, where it runs")
}

// setAnswer is the answer to who has set variables.
func setAnswer(merged json.RawMessage, err error) (any, error) {
	switch {
	case errors.Is(err, ErrEnded):
		return nil, rpc.Errorf(mcp.CodeInvalidParams, "the variables of a task can be set while it runs; it has ended")
	case err != nil:
		return nil, err
	}
	return shownVariables(merged), nil
}

// shownVariables is the answer to runnel/tasks/variables.
func shownVariables(v json.RawMessage) any {
	switch {
	case v == nil:
		v = json.RawMessage("{}")
	case len(v) > mcp.MaxContent:
		return map[string]any{"_meta": map[string]any{mcp.MetaVariablesBytes: len(v)}}
	}
	return map[string]json.RawMessage{"variables": v}
}

// WithVariables adds a task's variables, if it has any, to a _meta, which may be nil. Beside is how long the rest
// of the answer is: variables for which it leaves no room are left out, and a mark says how long they are.
func WithVariables(meta map[string]any, t *Task, beside int) map[string]any {
	if t.Variables == nil {
		return meta
	}
	if beside+len(t.Variables) > mcp.MaxContent {
		return with(meta, mcp.MetaVariablesBytes, len(t.Variables))
	}
	return with(meta, mcp.MetaVariables, t.Variables)
}

// with sets a member of a _meta, which may be nil.
func with(meta map[string]any, name string, value any) map[string]any {
	if meta == nil {
		meta = map[string]any{}
	}
	meta[name] = value
	return meta
}
