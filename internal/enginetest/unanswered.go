// Package enginetest tests what each engine must do beyond the contract of tasks.State.
package enginetest

import (
	"context"
	"errors"
	"testing"

	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/engine"
	"runnel/tasks/statetest"
)

// deaf is a store that stores everything, but whose answers are lost.
type deaf struct{ engine.Driver }

var errDeaf = engine.Away{Err: errors.New("no answer")}

func (d deaf) Append(ctx context.Context, r *engine.Record, b *engine.Batch) error {
	return errors.Join(d.Driver.Append(ctx, r, b), errDeaf)
}

func (d deaf) End(ctx context.Context, r *engine.Record, outcome []byte) error {
	return errors.Join(d.Driver.End(ctx, r, outcome), errDeaf)
}

// Unanswered shows that what was stored without an answer is not stored twice: neither output nor an end.
func Unanswered(t *testing.T, state *engine.State) {
	task := statetest.Working("a")
	statetest.Put(t, state, task)
	sp := ready(t, state.Space(task.Owner))
	sp.Stop() // it writes nothing by itself
	hears := sp.Driver
	if err := task.Log.Append(t.Context(), partials.Chunk{Data: []byte("line\n")}); err != nil {
		t.Fatal(err)
	}
	end := statetest.Ended(task, mcp.TaskCompleted, "done")
	for _, sp.Driver = range []engine.Driver{deaf{hears}, hearsOutput{deaf{hears}}} {
		if err := sp.Put(t.Context(), end); !errors.Is(err, tasks.ErrBusy) {
			t.Errorf("it was answered: %v", err)
		}
	}
	sp.Driver = hears
	failed := end
	failed.Status = mcp.TaskFailed
	statetest.Put(t, state, failed)
	if got := statetest.Get(t, state, "a"); got.Status != mcp.TaskCompleted ||
		statetest.ReadAll(t, got.Log) != "line\n" {
		t.Errorf("%s %s, %q", got.Status, got.StatusMessage, statetest.ReadAll(t, got.Log))
	}
	if marks, err := hears.Marks(t.Context(), ""); err != nil || len(marks) > 0 {
		t.Errorf("left: %v, %v", marks, err)
	}
}

// ready returns a space once it is ready.
func ready(t *testing.T, sp *engine.Space) *engine.Space {
	t.Helper()
	if err := sp.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	return sp
}

// hearsOutput is deaf, but gets the answers to output.
type hearsOutput struct{ deaf }

func (h hearsOutput) Append(ctx context.Context, r *engine.Record, b *engine.Batch) error {
	return h.Driver.Append(ctx, r, b)
}
