package run

import (
	"context"
	"errors"
	"slices"
	"testing"

	"runnel/rpc/mcp"
	"runnel/tasks"
)

func TestNewest(t *testing.T) {
	store := tasks.NewMemory()
	one, two := newRunner(t, Options{State: store}), newRunner(t, Options{State: store})
	var made []string // oldest first; every second one is of the other process
	for n := range 6 {
		r := []*Runner{one, two}[n%2]
		run, err := r.Start(t.Context(),
			Spec{Tool: "test", Handle: true, Work: func(context.Context, *Run) Done {
				return Done{Result: mcp.Result("fine")}
			}})
		if err != nil {
			t.Fatal(err)
		}
		run.Deliver(delivered)
		<-run.Ended()
		made = append(made, run.ID())
	}
	for _, own := range []bool{true, false} {
		var want, got []string
		for n, id := range slices.Backward(made) {
			if !own || n%2 == 0 {
				want = append(want, id)
			}
		}
		for before, more := "", true; more; before = got[len(got)-1] {
			var page []tasks.Task
			var err error
			if page, more, err = one.Newest(t.Context(), 2, before, own); err != nil || len(page) == 0 ||
				len(page) > 2 {
				t.Fatalf("own %t, before %q: %d tasks, %v", own, before, len(page), err)
			}
			for _, task := range page {
				got = append(got, task.ID)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("own %t: %v, want %v", own, got, want)
		}
		if _, _, err := one.Newest(t.Context(), 2, "no such", own); !errors.Is(err, tasks.ErrCursor) {
			t.Errorf("own %t: %v, want ErrCursor", own, err)
		}
	}
}
