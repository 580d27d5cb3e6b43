package sqlite

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"runnel/partials"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tasks"
)

// row is a task as it stands in the database.
type row struct {
	tasks.Task
	number int64
	keeper string // "" once the task has ended
	end    int64  // where the log ends
	ending *partials.Ending
	damage string // why the row cannot be believed; "" = it can
}

// taskColumns are what scanTask reads.
const taskColumns = "number, id, owner, tool, status, message, created, updated, ttl, merge, work IS NOT NULL, keeper, coalesce(length(outcome), 0) > 0"

// scanTask reads taskColumns, and more if the query has more.
func scanTask(scan func(...any) error, more ...any) (r row, err error) {
	var created, updated int64
	var keeper sql.NullString
	var stored bool
	err = scan(append([]any{&r.number, &r.ID, &r.Owner, &r.Tool, &r.Status, &r.StatusMessage, &created, &updated, &r.TTL, &r.Merge, &r.Detached, &keeper, &stored}, more...)...)
	r.CreatedAt, r.UpdatedAt, r.keeper = time.Unix(0, created), time.Unix(0, updated), keeper.String
	if err == nil {
		r.check(stored)
	}
	return r, err
}

// A row that SQLite finds sound may still be none that runnel has written: a bit has flipped, or somebody has edited it. It is checked
// here, where it is read. Such a task has failed, and says why; output that is damaged counts as no longer kept.

// check finds what is wrong with a task's row. stored reports whether it has an outcome.
func (r *row) check(stored bool) {
	switch r.Status {
	case mcp.TaskWorking, mcp.TaskInputRequired:
		if r.keeper == "" {
			r.fail("it works, but nobody runs it")
		}
	case mcp.TaskCompleted, mcp.TaskFailed, mcp.TaskCancelled:
		if !stored {
			r.fail("it has ended, but its result is missing")
		}
	default:
		r.fail(fmt.Sprintf("its status is %q", tasks.Clip(string(r.Status))))
	}
	if r.TTL <= 0 {
		r.fail(fmt.Sprintf("its ttl is %v", r.TTL))
	}
	r.StatusMessage = tasks.Clip(strings.ToValidUTF8(r.StatusMessage, "�"))
}

// fail makes the task of a damaged row a failed one.
func (r *row) fail(why string) {
	if r.damage != "" {
		return
	}
	r.damage = why
	message := "the state is damaged, and the result of this task with it: " + why
	r.Status, r.StatusMessage, r.keeper, r.Merge = mcp.TaskFailed, message, "", false
	r.Outcome = &tasks.Outcome{Err: rpc.Errorf(mcp.CodeInternalError, "%s", message)}
	r.ending = &partials.Ending{Rest: []mcp.ContentBlock{mcp.Text(message)}, IsError: true}
}

// decode takes the outcome and the variables of a task, as they are stored.
func (r *row) decode(outcome, variables []byte) {
	o, ending, err := decodeOutcome(outcome)
	switch {
	case err != nil:
		r.fail(err.Error())
	case r.damage == "":
		r.Outcome, r.ending = o, ending
	}
	if len(variables) == 0 {
		return
	}
	if !isLine(variables) || variables[0] != '{' || !json.Valid(variables) {
		r.fail("its variables cannot be read")
		return
	}
	r.Variables = variables
}

// storedOutcome is an Outcome as it stands in the database.
type storedOutcome struct {
	Result *mcp.CallToolResult `json:"result,omitempty"`
	Error  *rpc.Error          `json:"error,omitempty"`
	// Rest is what the result has beyond the output (partials.Ending).
	Rest    []json.RawMessage `json:"rest,omitempty"`
	IsError bool              `json:"isError,omitempty"`
}

func encodeOutcome(t *tasks.Task) ([]byte, error) {
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

func decodeOutcome(encoded []byte) (*tasks.Outcome, *partials.Ending, error) {
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
	return &tasks.Outcome{Result: s.Result, Err: s.Error}, &partials.Ending{Rest: s.Rest, IsError: s.IsError}, nil
}

// isLine reports whether JSON can stand on a line of output.
func isLine(b []byte) bool { return utf8.Valid(b) && bytes.IndexByte(b, '\n') < 0 }
