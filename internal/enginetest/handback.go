package enginetest

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/engine"
	"runnel/tasks/run"
	"runnel/tasks/statetest"
)

// Queue is a queue of an engine.
type Queue interface {
	tasks.Queues
	Space(owner string) *engine.Space
}

// HandedBack shows that a worker that hands a task back, and gets no answer, does not run it while another
// one may: neither if that was stored and cannot be read at first, nor if it is stored later.
func HandedBack(t *testing.T, open func() Queue) {
	for name, late := range map[string]bool{"stored": false, "stored later": true} {
		t.Run(name, func(t *testing.T) {
			front := open()
			worker := open()
			other := open()
			offer := tasks.Offer{Class: "builds", Timeout: time.Minute, Arguments: json.RawMessage(`{}`)}
			waits := offered(t, front, offer)
			sp := ready(t, worker.Space(tasks.DefaultOwner))
			sp.Stop() // so that it does nothing by itself
			link := &badLink{Driver: sp.Driver, late: late}
			sp.Driver, sp.Queue = link, badQueue{sp.Queue, link}
			var ran atomic.Int32
			there, err := statetest.NewRunner(t, run.Options{State: badly{worker, sp}}).
				Take(t.Context(), waits.ID(), []byte(`{"host":"there"}`), run.Spec{
					Work: func(ctx context.Context, task *run.Run) run.Done {
						if task.Offer(ctx, offer) != nil {
							ran.Add(1)
							if err := link.arrive(ctx); !errors.Is(err, tasks.ErrFenced) {
								t.Errorf("what comes late is stored: %v", err)
							}
						}
						return run.Done{Result: mcp.Result("there")}
					},
				})
			if err != nil {
				t.Fatal(err)
			}
			there.Begin()
			there.Delivered()
			<-there.Ended()
			if !late {
				run := takeNext(t, other, "other", func(context.Context, *run.Run) run.Done {
					ran.Add(1)
					return run.Done{Result: mcp.Result("other")}
				})
				<-run.Ended()
				if got := run.Task(); got.Attempt != 1 {
					t.Errorf("to hand a task back is an attempt: %+v", got)
				}
			}
			<-waits.Ended()
			if end := waits.Task(); end.Status != mcp.TaskCompleted || ran.Load() != 1 {
				t.Errorf("it has run %d times: %+v", ran.Load(), end)
			}
		})
	}
}

// HandedBackUnknown shows that a worker that ends before it knows whether it has handed a task back does not
// end the task, which waits.
func HandedBackUnknown(t *testing.T, open func() Queue) {
	front := open()
	worker := open()
	other := open()
	offer := tasks.Offer{Class: "builds", Timeout: time.Minute, Arguments: json.RawMessage(`{}`)}
	waits := offered(t, front, offer)
	sp := ready(t, worker.Space(tasks.DefaultOwner))
	sp.Stop()
	task, err := statetest.Shared(worker).Take(t.Context(), statetest.Working(waits.ID()),
		[]byte(`{"host":"there"}`))
	if err != nil {
		t.Fatal(err)
	}
	sp.Queue = badQueue{sp.Queue, &badLink{}}
	if err := statetest.Queue(worker).Offer(t.Context(), task.ID, offer); !errors.Is(err, tasks.ErrBusy) {
		t.Fatalf("it was answered: %v", err)
	}
	if err := statetest.Shared(worker).Put(t.Context(),
		statetest.Ended(task, mcp.TaskFailed, "the worker ends")); !errors.Is(err, tasks.ErrFenced) {
		t.Errorf("it ends what another one may run: %v", err)
	}
	<-takeNext(t, other, "other", func(context.Context,
		*run.Run) run.Done {
		return run.Done{Result: mcp.Result("other")}
	}).Ended()
	<-waits.Ended()
	if end := waits.Task(); end.Status != mcp.TaskCompleted {
		t.Errorf("%+v", end)
	}
}

// offered starts a task that waits for a worker.
func offered(t *testing.T, front tasks.Queues, o tasks.Offer) *run.Run {
	t.Helper()
	run := statetest.Start(t, statetest.NewRunner(t, run.Options{State: front}), func(ctx context.Context,
		task *run.Run) run.Done {
		return run.Done{Err: task.Offer(ctx, o)}
	})
	run.Delivered()
	select {
	case <-run.Detached():
	case <-run.Ended():
		t.Fatalf("it was not offered: %+v", run.Task())
	}
	return run
}

// takeNext makes a worker take the next waiting task.
func takeNext(t *testing.T, worker tasks.Queues, host string, work run.Work) *run.Run {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	runner := statetest.NewRunner(t, run.Options{State: worker})
	for {
		o, err := worker.Next(ctx, []string{tasks.DefaultOwner}, []string{"builds"})
		if err != nil {
			t.Fatal(err)
		}
		run, err := runner.Take(t.Context(), o.Task.ID, []byte(`{"host":"`+host+`"}`), run.Spec{Work: work})
		if err != nil { // an earlier one, which has ended
			t.Log(err)
			o.Return()
			continue
		}
		o.Done()
		run.Begin()
		run.Delivered()
		return run
	}
}

// badLink is a store whose queue never answers a PutWaiting, and which does not answer the first two reads
// after it.
type badLink struct {
	engine.Driver
	late bool // a PutWaiting arrives later

	lost    atomic.Int32
	arrives func(ctx context.Context) error
}

func (l *badLink) Read(ctx context.Context, id string) (*engine.Record, error) {
	if l.lost.Add(-1) >= 0 {
		return nil, errDeaf
	}
	return l.Driver.Read(ctx, id)
}

// arrive delivers the late PutWaiting.
func (l *badLink) arrive(ctx context.Context) error {
	if l.arrives == nil {
		return errors.New("it was stored at once")
	}
	return l.arrives(ctx)
}

// badly is a state whose stores offer through a given space.
type badly struct {
	Queue
	sp *engine.Space
}

func (b badly) Open(owner string) tasks.Store {
	return badOffers{b.Queue.Open(owner).(tasks.Queue), b.sp}
}

type badOffers struct {
	tasks.Queue
	sp *engine.Space
}

func (b badOffers) Offer(ctx context.Context, id string, o tasks.Offer) error {
	return b.sp.Offer(ctx, id, o, nil)
}

type badQueue struct {
	engine.Queue
	link *badLink
}

func (q badQueue) PutWaiting(ctx context.Context, r *engine.Record, before string) error {
	q.link.lost.Store(2)
	if !q.link.late {
		return errors.Join(q.Queue.PutWaiting(ctx, r, before), errDeaf)
	}
	sent := *r
	q.link.arrives = func(ctx context.Context) error { return q.Queue.PutWaiting(ctx, &sent, before) }
	return errDeaf
}
