package nats

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/run"
	"runnel/tasks/statetest"
)

// count returns how many messages have come to a subscription.
func count(t *testing.T, sub *nats.Subscription, conn *nats.Conn) int {
	t.Helper()
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	n, _, _ := sub.Pending()
	for range n {
		if _, err := sub.NextMsg(time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// A task wakes one of the workers that wait, whatever their number. Before, each of them looked for it.
func TestOneIsWoken(t *testing.T) {
	t.Parallel()
	const many = 5
	url := startServer(t, t.TempDir(), 0).ClientURL()
	front := newState(t, url)
	sp := spaceOf(t, front)
	looks := subscribed(t, front, "$JS.API.CONSUMER.MSG.NEXT."+sp.queueName+".builds")
	r := statetest.NewRunner(t, run.Options{State: front, Owner: "local"})
	alone := 0
	for try := 0; alone < 2; try++ { // workers also look each second
		if try == 20 {
			t.Fatalf("in %d of %d tries one worker alone has looked for a task", alone, try)
		}
		ctx, stop := context.WithCancel(t.Context())
		found := make(chan *tasks.Offered, many)
		for range many {
			worker := newState(t, url)
			go func() {
				o, _ := worker.Next(ctx, []string{"local"}, []string{"builds"})
				found <- o
			}()
		}
		for range 2 * many { // each looks again when it has begun to wait
			if _, err := looks.NextMsg(time.Minute); err != nil {
				t.Fatal(err)
			}
		}
		count(t, looks, front.c.nc)
		task := statetest.StartDelivered(t, r, func(ctx context.Context, task *run.Run) run.Done {
			return run.Done{Err: task.Offer(ctx,
				tasks.Offer{Class: "builds", Timeout: time.Hour, Arguments: []byte(`{}`)})}
		})
		o := <-found
		if o == nil || o.Task.ID != task.ID() {
			t.Fatalf("%+v", o)
		}
		if count(t, looks, front.c.nc) == 1 {
			alone++
		}
		o.Done()
		if _, err := r.Cancel(t.Context(), task.ID()); err != nil { // else it is shown again
			t.Fatal(err)
		}
		<-task.Ended()
		stop()
		for range many - 1 {
			<-found
		}
	}
}

// A worker that was woken by two tasks and takes one wakes another worker for the other. A look that found
// none ends that: a server that is slow to know the task makes such a one.
func TestWakeIsPassedOn(t *testing.T) {
	t.Parallel()
	url := startServer(t, t.TempDir(), 0).ClientURL()
	front, worker := newState(t, url), newState(t, url)
	sp := spaceOf(t, front)
	wakes := subscribed(t, front, sp.wakes+workers+".builds")
	looks := subscribed(t, front, "$JS.API.CONSUMER.MSG.NEXT."+sp.queueName+".builds")
	turns := &spaceOf(t, worker).turns
	passed := 0
	for try := 0; passed < 2; try++ {
		if try == 20 {
			t.Fatalf("in %d of %d tries the first look has found the task and woken another worker", passed, try)
		}
		first := offer(t, front, tasks.Offer{})
		turns.worthwhile("builds")
		turns.wake("builds")
		turns.wake("builds")
		count(t, wakes, front.c.nc)
		count(t, looks, front.c.nc)
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		o, err := worker.Next(ctx, []string{"local"}, []string{"builds"})
		stop()
		if err != nil || o.Task.ID != first.ID() {
			t.Fatalf("%+v, %v", o, err)
		}
		if err := worker.c.nc.Flush(); err != nil {
			t.Fatal(err)
		}
		switch n := count(t, wakes, front.c.nc); {
		case n > 1:
			t.Errorf("it has woken %d others", n)
		case n == 1:
			passed++
		case count(t, looks, front.c.nc) == 1:
			t.Error("its first look has found the task, and it has woken no other")
		}
		o.Done()
	}
}

// A worker that takes one task after the other stands in line all the time: each task costs one look. One
// that does not come back wakes another worker for what has woken it since.
func TestStandsInLine(t *testing.T) {
	t.Parallel()
	url := startServer(t, t.TempDir(), 0).ClientURL()
	front, worker := newState(t, url), newState(t, url)
	sp := spaceOf(t, front)
	wakes := subscribed(t, front, sp.wakes+workers+".builds")
	looks := subscribed(t, front, "$JS.API.CONSUMER.MSG.NEXT."+sp.queueName+".builds")
	found := make(chan *tasks.Offered, 1)
	next := func() {
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		o, err := worker.Next(ctx, []string{"local"}, []string{"builds"})
		stop()
		if err != nil {
			t.Error(err)
		}
		found <- o
	}
	stood, passed := 0, 0
	for try := 0; stood < 2 || passed < 2; try++ { // workers also look each second
		if try == 40 {
			t.Fatalf("in %d tries, %d tasks took one look, and %d wakes were passed on", try, stood, passed)
		}
		go next()
		for looked := 0; looked < 2; looked += count(t, looks, front.c.nc) { // it waits from the second look on
			time.Sleep(time.Millisecond)
		}
		first := offer(t, front, tasks.Offer{})
		o := <-found
		go next()
		if o == nil || o.Task.ID != first.ID() {
			t.Fatalf("%+v", o)
		}
		o.Done()
		count(t, looks, front.c.nc)
		second := offer(t, front, tasks.Offer{})
		o = <-found
		if err := front.c.nc.Publish(sp.wakes+workers+".builds", []byte("builds")); err != nil {
			t.Fatal(err)
		}
		if o == nil || o.Task.ID != second.ID() {
			t.Fatalf("%+v", o)
		}
		o.Done()
		if count(t, looks, front.c.nc) == 1 {
			stood++
		}
		for _, run := range []*run.Run{first, second} {
			statetest.Put(t, worker, statetest.Ended(taken(t, worker, run.ID()), mcp.TaskCompleted, "done"))
		}
		time.Sleep(2 * awayTime) // nothing is to happen but what the timer does
		if err := worker.c.nc.Flush(); err != nil {
			t.Fatal(err)
		}
		if count(t, wakes, front.c.nc) == 4 {
			passed++
		}
	}
}

// taken returns a task as a worker has taken it.
func taken(t *testing.T, worker *State, id string) tasks.Task {
	t.Helper()
	task, err := statetest.Shared(worker).Take(t.Context(), statetest.Working(id), []byte(`{"host":"there"}`))
	if err != nil {
		t.Fatal(err)
	}
	return task
}

// subscribed returns a subscription that receives from now on.
func subscribed(t *testing.T, s *State, subject string) *nats.Subscription {
	t.Helper()
	sub, err := s.c.nc.SubscribeSync(subject)
	if err == nil {
		err = s.c.nc.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	return sub
}

// A worker whose owners all have as many tasks there as they may waits without looking.
func TestNextOfNoOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		state := newState(t, "nats://127.0.0.1:1")
		for range 2 {
			ctx, stop := context.WithTimeout(t.Context(), 10*time.Second) // it comes only if Next waits
			if o, err := state.Next(ctx, nil, []string{"builds"}); o != nil ||
				!errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%+v, %v", o, err)
			}
			stop()
		}
	})
}
