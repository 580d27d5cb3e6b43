package run

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"runnel/tasks"
)

// historian is a state that notes what it is given to record.
type historian struct {
	tasks.State
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

// Calls that end in a burst are stored together, in as few transactions as others can wait for: the newest of
// them, as many as are kept.
func TestBurstIsRecordedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		state := &historian{State: tasks.NewMemory()}
		r := NewRunner(Options{State: state})
		defer r.Close()
		for range 2 {
			state.given = nil
			for n := range 3 * recordedAtOnce {
				tool := "old"
				if n >= 3*recordedAtOnce-state.History().Calls {
					tool = "new"
				}
				run, err := r.Start(t.Context(), Spec{Tool: tool, Work: func(context.Context, *Run) Done { return Done{} }})
				if err != nil {
					t.Fatal(err)
				}
				run.Delivered()
				<-run.Ended()
			}
			time.Sleep(2 * historyDelay)
			synctest.Wait()
			if len(state.given) != 2 || len(state.given[0]) != recordedAtOnce || len(state.given[1]) != 50 || slices.Contains(state.given[0], "old") {
				t.Errorf("recorded are %v", state.given)
			}
		}
	})
}

// Calls are recorded in the order in which they began, in whichever they end.
func TestCallsAreRecordedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		state := &historian{State: tasks.NewMemory()}
		r := NewRunner(Options{State: state})
		defer r.Close()
		for range 2 {
			state.given = nil
			for _, tool := range []string{"first", "second"} {
				run, err := r.Start(t.Context(), Spec{Tool: tool, Work: func(context.Context, *Run) Done {
					if tool == "first" {
						time.Sleep(historyDelay / 2)
					}
					return Done{}
				}})
				if err != nil {
					t.Fatal(err)
				}
				run.Delivered()
				time.Sleep(time.Millisecond)
			}
			time.Sleep(2 * historyDelay)
			synctest.Wait()
			if len(state.given) != 1 || !slices.Equal(state.given[0], []string{"first", "second"}) {
				t.Errorf("recorded are %v", state.given)
			}
		}
	})
}
