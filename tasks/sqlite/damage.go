package sqlite

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"runnel/partials"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tasks"
)

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

// isLine reports whether JSON can stand on a line of output.
func isLine(b []byte) bool { return utf8.Valid(b) && bytes.IndexByte(b, '\n') < 0 }

// checkStretch finds what is wrong with a row of output behind position last.
func checkStretch(s *partials.Stretch, stop, last int64) error {
	if s.Start < last || stop != s.End() {
		return fmt.Errorf("a row from %d to %d of %d bytes behind %d", s.Start, stop, len(s.Data), last)
	}
	return s.Check()
}

// errSegments tells that numbers of segments are damaged.
var errSegments = errors.New("the numbers of its segments cannot be read")

// decodeSegments reads a row of the segments that follow number n, which ends at position last: where they end.
func decodeSegments(first int64, stored []byte, n int, last int64) (ends []int64, err error) {
	if first != int64(n)+1 {
		return nil, errSegments
	}
	for len(stored) > 0 {
		d, size := binary.Varint(stored)
		if size <= 0 || d <= 0 || d > math.MaxInt64-last {
			return nil, errSegments
		}
		last += d
		ends = append(ends, last)
		stored = stored[size:]
	}
	return ends, nil
}

// tell logs damage, once for each task.
func (d *database) tell(number int64, id, why string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.damaged[number] {
		d.damaged[number] = true
		d.o.Log.Error().Str("taskId", id).Int64("task", number).Str("damage", why).Msg("the state is damaged: a task cannot be read")
	}
}
