package run

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/statetest/fake"
)

// What a tool finds in its output is a status of its task: at most one a second, except that the moment in
// which it is ready does not wait. Each is stored with the task before.
func TestMatchesAreStatuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reported []string
		r := newRunner(t, Options{Matched: func(t *tasks.Task) {
			reported = append(reported,
				t.Matches.Message())
		}})
		for range 2 {
			reported = nil
			run := start(t, r, func(_ context.Context, run *Run) Done {
				began := time.Now()
				run.Match("error", "error 0", 2)
				for n := range 1000 {
					time.Sleep(time.Millisecond / 2)
					run.Match("error", fmt.Sprint("error ", n+1), 2)
				}
				run.Ready(time.Since(began), "listening")
				run.Ready(time.Since(began), "again")
				for n := range 1000 {
					time.Sleep(time.Millisecond)
					run.Match("warning", fmt.Sprint("warning ", n), 2)
				}
				return Done{}
			})
			run.Delivered()
			select {
			case <-run.BecomesReady():
			case <-run.Ended():
				t.Error("never ready")
			}
			if age := time.Since(run.Task().CreatedAt); age != 500*time.Millisecond {
				t.Errorf("ready after %v", age)
			}
			<-run.Ended()

			const ready = "ready after 0.5 s: listening"
			want := []string{"matched error: error 0", ready + "; matched error: error 1000 (and 1000 more)"}
			for n := range want {
				if got := run.told[n]; got.Status != mcp.TaskWorking || got.StatusMessage != want[n] ||
					reported[n] != want[n] {
					t.Errorf("status %d is %s, %q, and %q is reported", n, got.Status, got.StatusMessage,
						reported[n])
				}
			}
			if n := len(run.told); n > 4 {
				t.Errorf("%d statuses", n)
			}
			last := run.told[len(run.told)-1]
			const end = ready + "; matched error: error 1000 (and 1000 more); matched warning: warning 999 (and 999 more)"
			if last.Status != mcp.TaskCompleted || last.StatusMessage != end {
				t.Errorf("it ends as %s, %q", last.Status, last.StatusMessage)
			}
			stored, err := r.Get(t.Context(), run.ID())
			if err != nil || stored.Matches.Message() != end || len(stored.Matches.Named[0].Lines) != 2 {
				t.Errorf("%v; stored is %+v", err, stored.Matches)
			}
		}
	})
}

// A call without a handle that is ready announces it when it gets one.
func TestReadyBeforeItsHandle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(t, Options{})
		for range 2 {
			s := &started{silenced: make(chan struct{})}
			run, err := r.Start(t.Context(),
				Spec{Tool: "test", Late: true, Client: s, Work: func(ctx context.Context, run *Run) Done {
					run.Ready(0, "listening")
					return untilDone(ctx, run)
				}})
			if err != nil {
				t.Fatal(err)
			}
			run.Delivered()
			<-run.BecomesReady()
			synctest.Wait()
			if err := run.Promote(t.Context()); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			variables, err := r.SetStored(t.Context(), run.ID(), []byte(`{"a":1}`))
			if err != nil || !strings.Contains(string(variables),
				`"runnel/matches":{"ready":{"after":0,"line":"listening"}}`) {
				t.Errorf("%v; the state has %s", err, variables)
			}
			run.Cancel("enough")
		}
	})
}

// noteless is a state that fails to store the first notes.
type noteless struct {
	fake.Alone
	failures atomic.Int32
}

func (s *noteless) SetVariables(ctx context.Context, id string, patch []byte) ([]byte, error) {
	if s.failures.Add(-1) >= 0 {
		return nil, errors.New("no connection")
	}
	return s.Alone.SetVariables(ctx, id, patch)
}

// A server that is ready prints nothing more: a note of it that could not be stored is stored later, since a
// caller elsewhere waits for it.
func TestReadyIsNotedAtLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		state := &noteless{Alone: fake.Memory()}
		r := newRunner(t, Options{State: fake.State(state)})
		for range 2 {
			run := start(t, r, func(ctx context.Context, run *Run) Done {
				state.failures.Store(3)
				run.Ready(time.Second, "listening")
				return untilDone(ctx, run)
			})
			run.Delivered()
			time.Sleep(4 * matchPace)
			variables, err := r.SetStored(t.Context(), run.ID(), []byte(`{"a":1}`))
			if err != nil || !strings.Contains(string(variables),
				`"runnel/matches":{"ready":{"after":1000000000,"line":"listening"}}`) {
				t.Errorf("%v; the state has %s", err, variables)
			}
			run.Cancel("enough")
		}
	})
}
