package run

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/statetest/fake"
)

// leaving is a state with tasks that another process has left. Its first answers to SetVariables are errors.
type leaving struct {
	fake.Alone
	errors []error
}

func (l *leaving) Take(ctx context.Context, t tasks.Task, _ []byte) (tasks.Task, error) {
	log, segments := t.Log, t.Segments
	t, err := l.Get(ctx, t.ID)
	t.Log, t.Segments = log, segments
	return t, err
}

func (l *leaving) SetVariables(ctx context.Context, id string, patch []byte) ([]byte, error) {
	if len(l.errors) > 0 {
		err := l.errors[0]
		l.errors = l.errors[1:]
		return nil, err
	}
	return l.Alone.SetVariables(ctx, id, patch)
}

// A task that was left does not go on before it is stored that it was taken: until then, the process before
// could note what it does. If another process was faster, it does not go on here.
func TestTakenIsNotedFirst(t *testing.T) {
	for _, fenced := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			state := &leaving{Alone: fake.Memory()}
			r := newRunner(t, Options{State: fake.State(state)})
			for _, id := range []string{"one", "two"} {
				if err := state.Put(t.Context(), tasks.Task{ID: id, Owner: r.o.Owner, Status: mcp.TaskWorking, TTL: time.Hour,
					CreatedAt: time.Now(), Variables: []byte(`{"runnel/resume":"tool"}`)}); err != nil {
					t.Fatal(err)
				}
				state.errors = []error{tasks.ErrBusy, tasks.ErrBusy}
				if fenced {
					state.errors[1] = tasks.ErrFenced
				}
				began := time.Now()
				run, err := r.Take(t.Context(), id, nil, Spec{Work: untilDone})
				if fenced {
					if !errors.Is(err, tasks.ErrFenced) || time.Since(began) != watchRetry {
						t.Errorf("%v after %v", err, time.Since(began))
					}
					continue
				}
				if err != nil || time.Since(began) != 2*watchRetry {
					t.Fatalf("%v after %v", err, time.Since(began))
				}
				run.Begin()
				run.Delivered()
				run.Cancel("")
			}
			r.Close()
		})
	}
}
