package nats

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"runnel/tasks"
	"runnel/tasks/run"
	"runnel/tasks/statetest"
)

// A server acknowledges the message of a waiting task before the consumer knows it, so that a worker may hear
// of it before it can be found. The worker's look after that waits for it: the task is not left until the
// next look, a second later.
func TestHeardTooEarly(t *testing.T) {
	t.Parallel()
	url := startServer(t, t.TempDir(), 0).ClientURL()
	front := newState(t, url)
	sp, err := front.space(t.Context(), "local")
	if err != nil {
		t.Fatal(err)
	}
	wakes := sp.wakes + workers + ".builds"
	sp.wakes = "elsewhere." // it is the test that wakes the worker
	looks, err := front.c.nc.SubscribeSync("$JS.API.CONSUMER.MSG.NEXT." + sp.queueName + ".builds")
	if err != nil {
		t.Fatal(err)
	}
	lookBegins := func() {
		t.Helper()
		if _, err := looks.NextMsg(time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	r := statetest.NewRunner(t, run.Options{State: front, Owner: "local"})
	tooEarly := func() (moreLooks int) {
		worker := newState(t, url) // one that does not stand in line yet
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		found := make(chan *tasks.Offered, 1)
		go func() {
			o, _ := worker.Next(ctx, []string{"local"}, []string{"builds"})
			found <- o
		}()
		lookBegins() // and finds nothing
		lookBegins() // once more, now that it waits
		if err := front.c.nc.PublishMsg(&nats.Msg{Subject: wakes, Data: []byte("builds")}); err != nil {
			t.Fatal(err)
		}
		lookBegins()
		task := statetest.StartDelivered(t, r, func(ctx context.Context, task *run.Run) run.Done {
			return run.Done{Err: task.Offer(ctx,
				tasks.Offer{Class: "builds", Timeout: time.Hour, Arguments: json.RawMessage(`{}`)})}
		})
		o := <-found
		if o == nil || o.Task.ID != task.ID() {
			t.Fatalf("%+v", o)
		}
		o.Done()
		if _, err := r.Cancel(t.Context(), task.ID()); err != nil { // else it is shown again
			t.Fatal(err)
		}
		<-task.Ended()
		if err := front.c.nc.Flush(); err != nil { // whatever the server has sent before has come
			t.Fatal(err)
		}
		moreLooks, _, _ = looks.Pending()
		for range moreLooks {
			lookBegins()
		}
		return moreLooks
	}
	found := 0
	for try := 0; found < 2; try++ { // on a busy machine the task may come when the look no longer waits
		if try == 20 {
			t.Fatalf("in %d of %d tries the look after the wake has found the task", found, try)
		}
		if more := tooEarly(); more == 0 {
			found++
		}
	}
}

// A line in which a task was shown is not believed empty by the look that comes too early for it: that would
// keep the task from this worker for emptyTime. A look that finds none without such a reason is believed.
func TestShownIsNotEmpty(t *testing.T) {
	t.Parallel()
	var turns turns
	for range 2 {
		turns.worthwhile("builds+high")
		turns.wake("builds+high")
		heard, shown, ok := turns.worthwhile("builds+high")
		if !shown || !ok {
			t.Fatalf("%v, %v: it was shown", shown, ok)
		}
		turns.found("builds+high", false, shown, heard)
		if heard, shown, ok = turns.worthwhile("builds+high"); shown || !ok {
			t.Errorf("%v, %v: the task may be there now", shown, ok)
		}
		turns.found("builds+high", false, shown, heard)
		if _, _, ok := turns.worthwhile("builds+high"); ok {
			t.Error("two looks have found it empty")
		}
	}
}
