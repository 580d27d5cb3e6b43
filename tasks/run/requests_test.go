package run

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/statetest/fake"
)

// asking is a state through which others ask once to cancel all tasks that it has.
type asking struct {
	fake.Alone
	ask chan []string
}

func (s *asking) Heed(ctx context.Context) (asked, fenced []string, err error) {
	select {
	case asked = <-s.ask:
	case <-ctx.Done():
	}
	return asked, nil, context.Cause(ctx)
}

func (s *asking) Put(ctx context.Context, t tasks.Task) error {
	if t.Tool == "slow" && t.Status.Terminal() {
		time.Sleep(time.Minute)
	}
	return s.Alone.Put(ctx, t)
}

// A task whose end takes long to be stored holds up no other that somebody wants cancelled.
func TestCancelsFromElsewhereAreNotHeldUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		state := &asking{fake.Memory(), make(chan []string)}
		r := newRunner(t, Options{State: fake.State(state)})
		slow, err := r.Start(t.Context(), Spec{Tool: "slow", Handle: true, Work: untilDone})
		if err != nil {
			t.Fatal(err)
		}
		slow.Delivered()
		quick := start(t, r, untilDone)
		quick.Delivered()
		began := time.Now()
		state.ask <- []string{slow.ID(), quick.ID()}
		<-quick.Ended()
		if took := time.Since(began); took > time.Second || quick.Task().Status != mcp.TaskCancelled {
			t.Errorf("%s after %v", quick.Task().Status, took)
		}
		<-slow.Ended()
		r.Close()
	})
}
