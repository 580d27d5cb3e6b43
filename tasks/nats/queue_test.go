package nats

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/statetest"
)

func TestQueue(t *testing.T) {
	t.Parallel()
	url := startServer(t, t.TempDir(), 0).ClientURL()
	statetest.RunQueue(t, func(t *testing.T) (front, worker tasks.Queue) {
		prefix := func(o *Options) { o.Prefix = prefixOf(t) }
		return newState(t, url, prefix), newState(t, url, prefix)
	})
}

// die lets a process vanish: its lease ends, and another one ends what it has left.
func (s *State) die(t *testing.T, other *State) {
	t.Helper()
	sp, err := s.space(t.Context(), "local")
	if err != nil {
		t.Fatal(err)
	}
	sp.stop()
	sp.unlease(t)
	theirs, err := other.space(t.Context(), "local")
	if err != nil {
		t.Fatal(err)
	}
	if err := theirs.sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	theirs.later(t)
}

// offer lets a task wait for a worker.
func offer(t *testing.T, s *State, o tasks.Offer) *tasks.Run {
	t.Helper()
	o.Class, o.Timeout, o.Arguments = "builds", time.Minute, json.RawMessage(`{}`)
	r := statetest.NewRunner(t, tasks.Options{State: s})
	run := start(t, r, func(ctx context.Context, run *tasks.Run) tasks.Done { return tasks.Done{Err: run.Offer(ctx, o)} })
	<-run.Detached()
	return run
}

// take lets a worker on a host take what waits, and write lines of text.
func take(t *testing.T, s *State, host string, lines int) {
	t.Helper()
	o, err := s.Next(t.Context(), []string{"local"}, []string{"builds"})
	if err != nil {
		t.Fatal(err)
	}
	task := statetest.Working(o.Task.ID)
	task, err = s.Take(t.Context(), task, []byte(`{"host":"`+host+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	o.Done()
	task.Log.SetLimit(1 << 20)
	for i := range lines {
		line := fmt.Sprintf("%s %d %s\n", host, i, strings.Repeat("x", 200))
		if err := task.Log.Append(t.Context(), partials.Chunk{Data: []byte(line)}); err != nil {
			t.Fatal(err)
		}
	}
	statetest.Eventually(t, func() bool { return statetest.Get(t, s, task.ID).Log.Size() == task.Log.Size() })
	if host == "last" {
		statetest.Put(t, s, statetest.Ended(task, mcp.TaskCompleted, "done"))
	}
}

// The task of a worker that dies waits for another one, as often as it may, and its output goes on: nothing is missing, nothing twice, also
// in a log of which the middle is cut out. Then it fails, and says where it ran.
func TestRetry(t *testing.T) {
	t.Parallel()
	url := startServer(t, t.TempDir(), 0).ClientURL()
	for lines, prefix := range map[int]string{3: "short", 6000: "long"} {
		t.Run(prefix, func(t *testing.T) {
			state := func() *State { return newState(t, url, func(o *Options) { o.Prefix = prefix }) }
			front, first, second, last := state(), state(), state(), state()
			run := offer(t, front, tasks.Offer{Retries: 1})
			take(t, first, "first", lines)
			first.die(t, front)
			statetest.Eventually(t, func() bool { // the client knows by now what the first attempt has written
				return strings.HasSuffix(run.Task().StatusMessage, "(attempt 2: its worker is gone)")
			})
			before, _ := run.Segments().Numbered()
			take(t, second, "second", lines)
			second.die(t, front)
			<-run.Ended()
			end := run.Task()
			if end.Status != mcp.TaskFailed || !strings.Contains(end.StatusMessage, "the worker on second that ran attempt 2 of this task is gone") {
				t.Errorf("%+v", end)
			}
			if after, _ := run.Segments().Numbered(); before == 0 || after <= before {
				t.Errorf("%d segments, then %d", before, after)
			}
			got := statetest.ReadAll(t, statetest.Get(t, last, run.ID()).Log)
			lastLines := fmt.Sprintf("second %d ", lines-1)
			if !strings.HasPrefix(got, "first 0 ") || !strings.Contains(got, lastLines) {
				t.Errorf("%d bytes: %.100s", len(got), got)
			}
			if whole := strings.Count(got, "\n"); lines < 100 && whole != 2*lines {
				t.Errorf("%d lines", whole)
			}
			if size := int64(len(got)); lines > 100 && (size > 1<<20+2*stretchBytes || size < 1<<19) {
				t.Errorf("%d bytes are kept of a log with a limit of %d", size, 1<<20)
			}

			again := offer(t, front, tasks.Offer{Retries: 1})
			take(t, last, "last", 3)
			<-again.Ended()
			if end := again.Task(); end.Status != mcp.TaskCompleted {
				t.Errorf("%+v", end)
			}
		})
	}
}

// Offers that are not runnel's are refused and counted, and the next one is served.
func TestPoisonedOffers(t *testing.T) {
	t.Parallel()
	url := startServer(t, t.TempDir(), 0).ClientURL()
	front, worker := newState(t, url), newState(t, url)
	sp, err := front.space(t.Context(), "local")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sp.openQueue(t.Context()); err != nil {
		t.Fatal(err)
	}
	poison := func(subject string, data []byte) {
		t.Helper()
		if _, err := sp.s.js.Publish(t.Context(), subject, data); err != nil {
			t.Fatal(err)
		}
	}
	poison(sp.work+"builds.x", []byte("garbage"))
	poison(sp.work+"builds.1.2.3.4", nil)
	poison(sp.work+"builds.00000000000000000001.nobody", bytes.Repeat([]byte{0}, 900<<10))
	working := statetest.Working("theirs") // somebody runs it
	statetest.Put(t, front, working)
	poison(sp.work+"builds.00000000000000000002.theirs", nil)
	garbled, newer := offer(t, front, tasks.Offer{}), offer(t, front, tasks.Offer{})
	poison(sp.subject(garbled.ID(), "offer"), []byte(`{"schema":1,"arguments":`))
	poison(sp.subject(newer.ID(), "offer"), []byte(`{"schema":2,"arguments":{}}`))
	good := offer(t, front, tasks.Offer{})

	o, err := worker.Next(t.Context(), []string{"local"}, []string{"builds"})
	if err != nil || o.Task.ID != good.ID() {
		t.Fatalf("%+v, %v", o, err)
	}
	<-garbled.Ended()
	if end := garbled.Task(); end.Status != mcp.TaskFailed || !strings.Contains(end.StatusMessage, "cannot be read") {
		t.Errorf("%+v", end)
	}
	if got := statetest.Get(t, front, newer.ID()); !got.Waiting {
		t.Errorf("%+v", got)
	}
	if got := statetest.Get(t, worker, "theirs"); got.Status != mcp.TaskWorking || got.Waiting {
		t.Errorf("%+v", got)
	}
	if err := worker.Announce(t.Context(), "local", &tasks.Worker{Host: "there"}); err != nil {
		t.Fatal(err)
	}
	poison(sp.alive+"forged.worker", []byte("garbage"))
	list, _, err := front.Fleet(t.Context(), "local")
	if err != nil || len(list) != 1 || list[0].Refused != 4 {
		t.Errorf("%+v, %v", list, err)
	}
	if err := front.Offer(t.Context(), "local", "theirs", tasks.Offer{Class: "builds", Arguments: make([]byte, maxOffer)}); err == nil {
		t.Error("an offer that is too large is made")
	}
	if err := front.Offer(t.Context(), "local", "theirs", tasks.Offer{Class: "a.b"}); err == nil {
		t.Error("a class with a dot is taken")
	}
}

// A task that a worker has taken without having been told so is not left lying: it waits again.
func TestTakenUnheard(t *testing.T) {
	t.Parallel()
	url := startServer(t, t.TempDir(), 0).ClientURL()
	front, worker := newState(t, url), newState(t, url)
	run := offer(t, front, tasks.Offer{Retries: 1})
	take(t, worker, "first", 1)
	sp, err := worker.space(t.Context(), "local")
	if err != nil {
		t.Fatal(err)
	}
	sp.forget(run.ID())
	for range 2 {
		if got := statetest.Get(t, front, run.ID()); got.Waiting {
			t.Error("it is taken away at the first look")
		}
		if err := sp.sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := statetest.Get(t, front, run.ID()); !got.Waiting {
		t.Errorf("%+v", got)
	}
}

// A task whose message in the work queue was lost is shown to workers again.
func TestLostOffer(t *testing.T) {
	t.Parallel()
	url := startServer(t, t.TempDir(), 0).ClientURL()
	var later atomic.Int64
	clock := func(o *Options) {
		o.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	}
	front, worker := newState(t, url, clock), newState(t, url)
	run := offer(t, front, tasks.Offer{})
	sp, err := front.space(t.Context(), "local")
	if err != nil {
		t.Fatal(err)
	}
	if err := sp.s.js.DeleteStream(t.Context(), sp.queueName); err != nil { // by somebody else
		t.Fatal(err)
	}
	_ = sp.sweep(t.Context()) // finds that the queue is gone, if nobody else has
	later.Store(int64(ackWait + time.Second))
	if err := sp.sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	o, err := worker.Next(t.Context(), []string{"local"}, []string{"builds"})
	if err != nil || o.Task.ID != run.ID() {
		t.Errorf("%+v, %v", o, err)
	}
}

// Who heeds for one owner does not keep from another one that somebody asks.
func TestHeedOfSeveralOwners(t *testing.T) {
	t.Parallel()
	url := startServer(t, t.TempDir(), 0).ClientURL()
	here, there := newState(t, url), newState(t, url)
	statetest.Put(t, here, statetest.Working("a"))
	for tries := 1; ; tries++ {
		var slowest atomic.Int64
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() {
				began := time.Now()
				for asked := []string{}; len(asked) == 0; {
					asked, _, _ = here.Heed(t.Context())
				}
				slowest.Store(max(slowest.Load(), int64(time.Since(began))))
			})
		}
		statetest.Eventually(t, func() bool { return here.heeding.Load() == 5 })
		if err := there.Ask(t.Context(), "local", "a"); err != nil {
			t.Fatal(err)
		}
		all.Wait()
		if time.Duration(slowest.Load()) < 500*time.Millisecond { // by itself one looks each second
			return
		}
		if tries == 5 { // not a machine that is busy
			t.Fatal(time.Duration(slowest.Load()))
		}
		sp, err := here.space(t.Context(), "local")
		if err != nil {
			t.Fatal(err)
		}
		sp.mu.Lock()
		clear(sp.wanted)
		sp.mu.Unlock()
	}
}
