package run

import (
	"context"
	"sync"
	"testing"
)

// Who waits until nothing runs may do so while clients start more: over HTTP they do when stdin has ended.
func TestWaitWhileTasksStart(t *testing.T) {
	r := newRunner(t, Options{})
	var starting sync.WaitGroup
	const n = 2000
	starting.Go(func() {
		for range n {
			run, err := r.Start(t.Context(),
				Spec{Tool: "test", Work: func(context.Context, *Run) Done { return Done{} }})
			if err != nil {
				t.Error(err)
				return
			}
			run.Delivered()
			<-run.Ended()
		}
	})
	for range n {
		if err := r.Wait(t.Context()); err != nil {
			t.Error(err)
		}
	}
	starting.Wait()
	if err := r.Wait(t.Context()); err != nil {
		t.Error(err)
	}
}
