package fleet

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"runnel/tasks"
	"runnel/tasks/run"
	"runnel/tools"
	"runnel/tools/upstream"
)

// muteState is a state whose server does not answer.
type muteState struct{ tasks.Queues }

func (muteState) Open(string) tasks.Store { return mute{} }

type mute struct{ tasks.Queue }

func (mute) Announce(context.Context, *tasks.Worker) error {
	time.Sleep(10 * time.Second)
	return tasks.ErrBusy
}

func (mute) Orders(ctx context.Context) ([]tasks.Order, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// A worker of many owners that is to end does not wait for each of them when the state does not answer.
func TestAnnounceMute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := NewWorker(Parts{Options: Options{Owners: []string{"a", "b", "c"}}, Queues: muteState{},
			Set: upstream.NewSet(&tools.Registry{}), Runners: map[string]*run.Runner{"a": nil, "b": nil, "c": nil}})
		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, stop)
		began := time.Now()
		if w.announce(ctx, nil); time.Since(began) > 25*time.Second {
			t.Errorf("it took %v", time.Since(began))
		}
	})
}
