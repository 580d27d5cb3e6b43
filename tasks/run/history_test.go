package run

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"runnel/tasks"
	"runnel/tasks/statetest/fake"
)

// historian is a state that notes what it is given to record.
type historian struct {
	tasks.Store
	given [][]string // the tools of the calls of each time
}

func (h *historian) History() tasks.History {
	return tasks.History{Calls: recordedAtOnce + 50, Age: time.Hour, Log: 1 << 10}
}

func (h *historian) Record(calls ...tasks.Task) error {
	var tools []string
	for _, t := range calls {
		tools = append(tools, t.Tool)
	}
	h.given = append(h.given, tools)
	return nil
}

// recording makes calls twice, in a bubble, with a runner whose calls state notes, and waits until they are recorded.
func recording(t *testing.T, calls func(t *testing.T, r *Runner),
	check func(t *testing.T, given [][]string)) {
	synctest.Test(t, func(t *testing.T) {
		state := &historian{Store: fake.Memory()}
		r := NewRunner(Options{State: fake.State(state)})
		defer r.Close()
		for range 2 {
			state.given = nil
			calls(t, r)
			time.Sleep(2 * historyDelay)
			synctest.Wait()
			check(t, state.given)
		}
	})
}

// startCall starts a call whose output is delivered.
func startCall(t *testing.T, r *Runner, tool string, takes time.Duration) *Run {
	t.Helper()
	run, err := r.Start(t.Context(), Spec{Tool: tool, Work: func(context.Context, *Run) Done {
		time.Sleep(takes)
		return Done{}
	}})
	if err != nil {
		t.Fatal(err)
	}
	run.Delivered()
	return run
}

// Calls that end in a burst are stored together, in as few transactions as others can wait for: the newest of
// them, as many as are kept.
func TestBurstIsRecordedTogether(t *testing.T) {
	recording(t, func(t *testing.T, r *Runner) {
		for n := range 3 * recordedAtOnce {
			tool := "old"
			if n >= 3*recordedAtOnce-(&historian{}).History().Calls {
				tool = "new"
			}
			<-startCall(t, r, tool, 0).Ended()
		}
	}, func(t *testing.T, given [][]string) {
		if len(given) != 2 || len(given[0]) != recordedAtOnce || len(given[1]) != 50 ||
			slices.Contains(given[0], "old") {
			t.Errorf("recorded are %v", given)
		}
	})
}

// Calls are recorded in the order in which they began, in whichever they end.
func TestCallsAreRecordedInOrder(t *testing.T) {
	recording(t, func(t *testing.T, r *Runner) {
		startCall(t, r, "first", historyDelay/2)
		time.Sleep(time.Millisecond)
		startCall(t, r, "second", 0)
	}, func(t *testing.T, given [][]string) {
		if len(given) != 1 || !slices.Equal(given[0], []string{"first", "second"}) {
			t.Errorf("recorded are %v", given)
		}
	})
}
