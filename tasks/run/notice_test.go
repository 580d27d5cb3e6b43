package run

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/statetest/fake"
)

// refusing refuses the ends of tasks with the errors that come, one after the other, and stores them after
// the last.
type refusing struct {
	fake.Alone
	errs []error
}

func (s *refusing) Put(ctx context.Context, t tasks.Task) error {
	if t.Status.Terminal() && len(s.errs) > 0 {
		err := s.errs[0]
		s.errs = s.errs[1:]
		return err
	}
	return s.Alone.Put(ctx, t)
}

// An end is told by the process that has stored it, once it has.
func TestEndIsTold(t *testing.T) {
	noRoom := errors.New("no room")
	for name, c := range map[string]struct {
		errs []error
		told int32
	}{
		"stored":                      {nil, 1},
		"stored when there is room":   {[]error{noRoom, noRoom}, 1},
		"others were quicker":         {[]error{tasks.ErrFenced}, 0},
		"others were quicker by then": {[]error{noRoom, tasks.ErrFenced}, 0},
		"never stored, by anybody":    {[]error{tasks.ErrRemoved}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var told atomic.Int32
				r := newRunner(t, Options{State: fake.State(&refusing{fake.Memory(), c.errs}),
					Ended: func(*tasks.Task) { told.Add(1) }})
				s := start(t, r, func(context.Context, *Run) Done { return Done{Result: mcp.Result("fine")} })
				s.Delivered()
				<-s.Ended()
				_ = s.Settled(t.Context())
				synctest.Wait()
				r.Close()
				if n := told.Load(); n != c.told {
					t.Errorf("told %d times", n)
				}
			})
		})
	}
}

// A call that somebody waits for is told, and one of those that always end soon is not.
func TestCallIsTold(t *testing.T) {
	for _, late := range []bool{true, false} {
		told := 0
		r := newRunner(t, Options{Ended: func(*tasks.Task) { told++ }})
		run, err := r.Start(t.Context(),
			Spec{Tool: "test", Late: late, Work: func(context.Context, *Run) Done { return Done{} }})
		if err != nil {
			t.Fatal(err)
		}
		run.Delivered()
		<-run.Ended()
		r.Close()
		if want := map[bool]int{true: 1, false: 0}[late]; told != want {
			t.Errorf("late %v: told %d times", late, told)
		}
	}
}
