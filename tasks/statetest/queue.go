package statetest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/run"
)

// RunQueue holds two states that see the same tasks against the contract of tasks.Queues. open makes such a
// pair, empty.
func RunQueue(t *testing.T, open func(t *testing.T) (front, worker tasks.Queues)) {
	for name, test := range map[string]func(t *testing.T, front, worker tasks.Queues){
		"runs elsewhere":        runsElsewhere,
		"cancelled in line":     cancelledInLine,
		"nobody comes":          nobodyComes,
		"each once":             eachOnce,
		"owners in turn":        ownersInTurn,
		"priorities":            priorities,
		"a share for the low":   aShareForTheLow,
		"given back":            givenBack,
		"files of an attempt":   filesOfAnAttempt,
		"workers are announced": workersAreAnnounced,
	} {
		t.Run(name, func(t *testing.T) {
			front, worker := open(t)
			test(t, front, worker)
		})
	}
}

const class = "builds"

// offer starts a task of a runner that waits for a worker.
func offer(t *testing.T, r *run.Runner, o tasks.Offer) *run.Run {
	t.Helper()
	return offerSpec(t, r, o, run.Spec{Tool: "build", Handle: true})
}

// offerCall is offer for a call without a handle, of which nothing is stored before it waits.
func offerCall(t *testing.T, r *run.Runner, o tasks.Offer) *run.Run {
	t.Helper()
	return offerSpec(t, r, o, run.Spec{Tool: "build"})
}

func offerSpec(t *testing.T, r *run.Runner, o tasks.Offer, spec run.Spec) *run.Run {
	t.Helper()
	o.Class = class
	if o.Timeout == 0 {
		o.Timeout = time.Minute
	}
	if o.Arguments == nil {
		o.Arguments = json.RawMessage(`{}`)
	}
	spec.Work = func(ctx context.Context, task *run.Run) run.Done { return run.Done{Err: task.Offer(ctx, o)} }
	run, err := r.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	run.Delivered()
	select {
	case <-run.Detached():
		return run
	case <-run.Ended():
	}
	select {
	case <-run.Detached(): // a worker has ended it already
	default:
		t.Fatalf("it was not offered: %+v", run.Task())
	}
	return run
}

// A worker runs a task that was offered. The process that offered it sees that it waits, its output and its
// end.
func runsElsewhere(t *testing.T, front, worker tasks.Queues) {
	a, b := NewRunner(t, run.Options{State: front, Owner: owner}),
		NewRunner(t, run.Options{State: worker, Owner: owner})
	task, second := offer(t, a, tasks.Offer{Arguments: json.RawMessage(`{"target":"all"}`)}),
		offerCall(t, a, tasks.Offer{})
	for n, waits := range []*run.Run{task, second} {
		want := fmt.Sprintf("waiting for a worker of class %s: %d before it", class, n)
		Eventually(t, func() bool {
			seen, err := b.Get(t.Context(), waits.ID())
			told, err2 := a.Get(t.Context(), waits.ID())
			return err == nil && err2 == nil && seen.StatusMessage == want && told.StatusMessage == want
		})
	}
	o, err := worker.Next(t.Context(), []string{owner}, []string{class})
	if err != nil || o.Task.ID != task.ID() || o.Task.Tool != "build" ||
		string(o.Arguments) != `{"target":"all"}` {
		t.Fatalf("%+v, %v", o, err)
	}
	there, err := b.Take(t.Context(), task.ID(), []byte(`{"host":"there"}`),
		run.Spec{Tool: "build", Work: func(ctx context.Context, task *run.Run) run.Done {
			if err := task.Log().Append(ctx, partials.Chunk{Data: []byte("built\n")}); err != nil {
				return run.Done{Err: err}
			}
			return run.Done{Result: mcp.Result("the result")}
		}})
	if err != nil {
		t.Fatal(err)
	}
	o.Done()
	there.Begin()
	there.Delivered()
	<-task.Ended()
	if end := task.Task(); end.Status != mcp.TaskCompleted || ReadAll(t, task.Log()) != "built\n" {
		t.Errorf("%+v, %q", end, ReadAll(t, task.Log()))
	}
	if got := Get(t, front, task.ID()); got.Worker != "there" || got.Attempt != 1 || !got.Detached ||
		got.Waiting {
		t.Errorf("%+v", got)
	}
	Eventually(t, func() bool {
		got, err := a.Get(t.Context(), second.ID())
		return err == nil && strings.HasSuffix(got.StatusMessage, ": 0 before it")
	})
}

// Any process can cancel a waiting task, which ends at once, and no worker gets it.
func cancelledInLine(t *testing.T, front, worker tasks.Queues) {
	a, b := NewRunner(t, run.Options{State: front, Owner: owner}),
		NewRunner(t, run.Options{State: worker, Owner: owner})
	here, hereToo := offer(t, a, tasks.Offer{}), offerCall(t, a, tasks.Offer{})
	elsewhere, elsewhereToo := offer(t, a, tasks.Offer{}), offerCall(t, a, tasks.Offer{})
	kept := offerCall(t, a, tasks.Offer{})
	for _, run := range []*run.Run{here, hereToo} {
		if _, err := a.Cancel(t.Context(), run.ID()); err != nil {
			t.Error(err)
		}
	}
	for _, run := range []*run.Run{elsewhere, elsewhereToo} {
		if got, err := b.Cancel(t.Context(), run.ID()); err != nil || got.Status != mcp.TaskCancelled {
			t.Errorf("%+v, %v", got, err)
		}
	}
	for _, run := range []*run.Run{here, hereToo, elsewhere, elsewhereToo} {
		<-run.Ended()
		if got := run.Task(); got.Status != mcp.TaskCancelled {
			t.Errorf("%+v", got)
		}
	}
	_, waiting, err := Queue(worker).Fleet(t.Context())
	if waits := waiting[class]; err != nil || waits.Tasks != 1 || time.Since(waits.Since) > time.Hour {
		t.Errorf("%v, %v", waiting, err)
	}
	o, err := worker.Next(t.Context(), []string{owner}, []string{class})
	if err != nil || o.Task.ID != kept.ID() {
		t.Errorf("%+v, %v", o, err)
	}
}

// A task that no worker takes in time fails, and says so.
func nobodyComes(t *testing.T, front, _ tasks.Queues) {
	a := NewRunner(t, run.Options{State: front, Owner: owner})
	for _, offer := range []func(*testing.T, *run.Runner, tasks.Offer) *run.Run{offer, offerCall} {
		run := offer(t, a, tasks.Offer{Timeout: 10 * time.Millisecond})
		<-run.Ended()
		if got := run.Task(); got.Status != mcp.TaskFailed ||
			!strings.Contains(got.StatusMessage, "no worker of class builds has taken it within 10ms") {
			t.Errorf("%+v", got)
		}
	}
}

// Many tasks, several workers: each task is run once.
func eachOnce(t *testing.T, front, worker tasks.Queues) {
	const many = 40
	a, b := NewRunner(t, run.Options{State: front, Owner: owner}),
		NewRunner(t, run.Options{State: worker, Owner: owner})
	var mu sync.Mutex
	begun := map[string]int{}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var workers sync.WaitGroup
	for _, w := range []struct {
		q tasks.Queues
		r *run.Runner
	}{{front, a}, {worker, b}, {worker, b}} {
		workers.Go(func() {
			for {
				o, err := w.q.Next(ctx, []string{owner}, []string{class})
				if err != nil {
					return
				}
				run, err := w.r.Take(ctx, o.Task.ID, []byte(`{}`),
					run.Spec{Work: func(_ context.Context, task *run.Run) run.Done {
						mu.Lock()
						defer mu.Unlock()
						begun[task.ID()]++
						return run.Done{Result: mcp.Result("done")}
					}})
				if err != nil {
					t.Error(err)
					return
				}
				o.Done()
				run.Begin()
				run.Delivered()
			}
		})
	}
	for range many / 2 {
		offer(t, NewRunner(t, run.Options{State: front, Owner: owner}), tasks.Offer{})
		offerCall(t, NewRunner(t, run.Options{State: front, Owner: owner}), tasks.Offer{})
	}
	Eventually(t, func() bool { mu.Lock(); defer mu.Unlock(); return len(begun) == many })
	stop()
	workers.Wait()
	for id, n := range begun {
		if n != 1 {
			t.Errorf("%s was begun %d times", id, n)
		}
	}
}

// An owner with many waiting tasks does not hold up those of another one.
func ownersInTurn(t *testing.T, front, worker tasks.Queues) {
	a, b := NewRunner(t, run.Options{State: front, Owner: owner}),
		NewRunner(t, run.Options{State: front, Owner: "other"})
	for range 4 {
		offer(t, a, tasks.Offer{})
	}
	for range 2 {
		offer(t, b, tasks.Offer{})
	}
	got := ""
	for range 4 {
		o, err := worker.Next(t.Context(), []string{owner, "other"}, []string{class})
		if err != nil {
			t.Fatal(err)
		}
		got += o.Task.Owner[:1]
	}
	if strings.Count(got, "o") != 2 && inTurn(worker) {
		t.Errorf("%s", got)
	}
}

// offerEach offers so many tasks of each priority.
func offerEach(t *testing.T, r *run.Runner, each map[tasks.Priority]int) {
	t.Helper()
	for p, n := range each {
		for range n {
			offer(t, r, tasks.Offer{Priority: p})
		}
	}
}

// inTurn reports whether lines are served in their turns. While servers die, a look at one finds nothing that
// waits: its leader is being elected.
func inTurn(q tasks.Queues) bool {
	_, dying := q.(patient)
	return !dying
}

// looker looks for tasks that wait, and counts each once: a task that no worker takes comes again after
// showAgain, and sooner if servers die, since an acknowledgement may be lost.
type looker struct {
	worker tasks.Queues
	seen   map[string]bool
	again  bool // one has come again, so that turns are not as they would be
}

// showAgain is after how long a task that was looked at, and not taken, is offered again.
const showAgain = 10 * time.Second

func (l *looker) next(t *testing.T, owners ...string) *tasks.Offered {
	t.Helper()
	for {
		o, err := l.worker.Next(t.Context(), owners, []string{class})
		if err != nil {
			t.Fatal(err)
		}
		o.Done()
		if !l.seen[o.Task.ID] {
			l.seen[o.Task.ID] = true
			return o
		}
		if l.again = true; inTurn(l.worker) && time.Since(o.Since) < showAgain {
			t.Errorf("%s comes again", o.Task.ID)
		}
	}
}

// taken counts the priorities of the next n tasks of an owner that a worker gets.
func (l *looker) taken(t *testing.T, n int) map[tasks.Priority]int {
	t.Helper()
	count := map[tasks.Priority]int{}
	for range n {
		count[l.next(t, owner).Priority]++
	}
	return count
}

// A worker takes six tasks of high priority, three of normal and one of low in each ten. The high ones of
// another owner do not delay them. A task's status shows its place by priority.
func priorities(t *testing.T, front, worker tasks.Queues) {
	a, b := NewRunner(t, run.Options{State: front, Owner: owner}),
		NewRunner(t, run.Options{State: front, Owner: "other"})
	low := offer(t, a, tasks.Offer{Priority: tasks.PriorityLow})
	offerEach(t, a, map[tasks.Priority]int{tasks.PriorityHigh: 6, "": 3})
	offerEach(t, b, map[tasks.Priority]int{tasks.PriorityHigh: 3})
	Eventually(t, func() bool {
		seen, err := a.Get(t.Context(), low.ID())
		return err == nil && strings.HasSuffix(seen.StatusMessage, ": 9 before it")
	})
	l := looker{worker: worker, seen: map[string]bool{}}
	got := l.taken(t, 5)
	for got["other"] < 2 {
		if o := l.next(t, owner, "other"); o.Task.Owner == owner {
			got[o.Priority]++
		} else {
			got["other"]++
		}
	}
	left := 10 - got[tasks.PriorityHigh] - got[""] - got[tasks.PriorityLow]
	if left < 2 && inTurn(worker) && !l.again {
		t.Errorf("two of the other owner were taken when %d were left: %v", left, got)
	}
	for p, n := range l.taken(t, left) {
		got[p] += n
	}
	if (got[tasks.PriorityHigh] != 6 || got[""] != 3 || got[tasks.PriorityLow] != 1) && !l.again {
		t.Errorf("%v", got)
	}
}

// Low tasks are taken while high ones wait, and high ones come before normal ones.
func aShareForTheLow(t *testing.T, front, worker tasks.Queues) {
	a := NewRunner(t, run.Options{State: front, Owner: owner, Limits: tasks.Limits{MaxLive: 100}})
	offerEach(t, a, map[tasks.Priority]int{tasks.PriorityLow: 3, tasks.PriorityHigh: 30})
	l := looker{worker: worker, seen: map[string]bool{}}
	if got := l.taken(t, 20); got[tasks.PriorityLow] != 2 && inTurn(worker) && !l.again {
		t.Errorf("of 20: %v", got)
	}
	l.taken(t, 13)
	for try := 1; ; try++ { // a worker may hear of the high one some takes after it was offered
		offerEach(t, a, map[tasks.Priority]int{tasks.PriorityNormal: 2})
		l.taken(t, 2) // one of them after a look for high ones, which finds none
		offerEach(t, a, map[tasks.Priority]int{tasks.PriorityNormal: 5, "a newer one": 3})
		offer(t, a, tasks.Offer{Priority: tasks.PriorityHigh})
		early := l.taken(t, 3)[tasks.PriorityHigh] == 1
		l.taken(t, 6)
		if early || l.again {
			return
		}
		if try == 5 {
			t.Fatal("each time three others were taken before the high one, which came last")
		}
	}
}

// A task that a worker gives back is offered again.
func givenBack(t *testing.T, front, worker tasks.Queues) {
	run := offer(t, NewRunner(t, run.Options{State: front, Owner: owner}), tasks.Offer{})
	for range 2 {
		o, err := worker.Next(t.Context(), []string{owner}, []string{class})
		if err != nil || o.Task.ID != run.ID() {
			t.Fatalf("%+v, %v", o, err)
		}
		o.Return()
	}
}

// A worker's announcement is known until the worker takes it back.
func workersAreAnnounced(t *testing.T, front, worker tasks.Queues) {
	offer(t, NewRunner(t, run.Options{State: front, Owner: owner}), tasks.Offer{})
	w := tasks.Worker{Host: "there", PID: 1, Classes: []string{class}, Slots: 2,
		Tools: []tasks.Offerer{{Tool: mcp.Tool{Name: "build",
			InputSchema: json.RawMessage(`{"type":"object"}`)}, Class: class}}}
	Eventually(t, func() bool { // an announcement expires
		if err := Queue(worker).Announce(t.Context(), &w); err != nil {
			t.Fatal(err)
		}
		list, waiting, err := Queue(front).Fleet(t.Context())
		return err == nil && len(list) == 1 && list[0].Host == "there" && len(list[0].Tools) == 1 &&
			list[0].Tools[0].Name == "build" && waiting[class].Tasks == 1
	})
	if err := Queue(worker).Announce(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if list, _, err := Queue(front).Fleet(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
}
