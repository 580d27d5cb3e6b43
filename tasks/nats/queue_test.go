package nats

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/engine"
	"runnel/tasks/run"
	"runnel/tasks/statetest"
)

func TestQueue(t *testing.T) {
	t.Parallel()
	url := startServer(t, t.TempDir(), 0).ClientURL()
	statetest.RunQueue(t, func(t *testing.T) (front, worker tasks.Queues) {
		prefix := func(o *Options) { o.Prefix = prefixOf(t) }
		return newState(t, url, prefix), newState(t, url, prefix)
	})
}

// die lets a process vanish: its lease ends, and another one ends what it has left.
func (s *State) die(t *testing.T, other *State, clock *statetest.Clock) {
	t.Helper()
	sp, err := s.space(t.Context(), "local")
	if err != nil {
		t.Fatal(err)
	}
	sp.Stop()
	sp.unlease(t)
	theirs, err := other.space(t.Context(), "local")
	if err != nil {
		t.Fatal(err)
	}
	if err := theirs.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	later(t, theirs, clock)
}

// offer lets a task wait for a worker.
func offer(t *testing.T, s *State, o tasks.Offer) *run.Run { return offerTelling(t, s, o, nil) }

func offerTelling(t *testing.T, s *State, o tasks.Offer, ended func(*tasks.Task)) *run.Run {
	t.Helper()
	o.Class = "builds"
	o.Timeout = time.Minute
	o.Arguments = json.RawMessage(`{}`)
	r := statetest.NewRunner(t, run.Options{State: s, Ended: ended})
	run := statetest.StartDelivered(t, r,
		func(ctx context.Context, task *run.Run) run.Done { return run.Done{Err: task.Offer(ctx, o)} })
	<-run.Detached()
	return run
}

// A call that only workers run waits from its first record on: a front that stored it as its own first would
// wait twice as often for the server.
func TestCallWaitsAtOnce(t *testing.T) {
	t.Parallel()
	s := newState(t, startServer(t, t.TempDir(), 0).ClientURL())
	if err := s.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		records := make(chan engine.Stored, 10)
		heard, err := s.c.nc.Subscribe(s.c.o.Prefix+".local.*.task", func(m *nats.Msg) {
			var r engine.Stored
			if err := json.Unmarshal(m.Data, &r); err != nil {
				t.Error(err)
			}
			records <- r
		})
		if err != nil {
			t.Fatal(err)
		}
		o := tasks.Offer{Class: "builds", Timeout: time.Minute, Arguments: json.RawMessage(`{}`)}
		call, err := statetest.NewRunner(t, run.Options{State: s}).Start(t.Context(),
			run.Spec{Tool: "test", Work: func(ctx context.Context, task *run.Run) run.Done {
				return run.Done{Err: task.Offer(ctx, o)}
			}})
		if err != nil {
			t.Fatal(err)
		}
		call.Delivered()
		<-call.Detached()
		if r := <-records; r.Keeper != engine.QueueKeeper || r.Offer == nil {
			t.Errorf("the first record is %+v", r)
		}
		if err := heard.Unsubscribe(); err != nil {
			t.Error(err)
		}
	}
}

// take lets a worker on a host take what waits, and write lines of text.
func take(t *testing.T, s *State, host string, lines int) {
	t.Helper()
	o, err := s.Next(t.Context(), []string{"local"}, []string{"builds"})
	if err != nil {
		t.Fatal(err)
	}
	task := statetest.Working(o.Task.ID)
	task, err = statetest.Shared(s).Take(t.Context(), task, []byte(`{"host":"`+host+`"}`))
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
	statetest.Eventually(t, func() bool { // its output and, a moment later, its numbers
		got := statetest.Get(t, s, task.ID)
		_, numbered := got.Segments.Numbered()
		return got.Log.Size() == task.Log.Size() && numbered == got.Log.Size()
	})
	if host == "last" {
		statetest.Put(t, s, statetest.Ended(task, mcp.TaskCompleted, "done"))
	}
}

// The task of a worker that dies waits for another one, as often as it may, and its output goes on: nothing
// is missing, nothing twice, also in a log of which the middle is cut out. Then it fails, and says where it
// ran.
func TestRetry(t *testing.T) {
	t.Parallel()
	url := startServer(t, t.TempDir(), 0).ClientURL()
	for lines, prefix := range map[int]string{3: "short", 6000: "long"} {
		t.Run(prefix, func(t *testing.T) {
			var clock statetest.Clock
			told := make(chan *tasks.Task, 10)
			ended := func(t *tasks.Task) { told <- t }
			state := func() *State {
				return newState(t, url, at(&clock),
					func(o *Options) { o.Prefix, o.Recovered = prefix, ended })
			}
			front := state()
			first := state()
			second := state()
			last := state()
			run := offerTelling(t, front, tasks.Offer{Retries: 1}, ended)
			take(t, first, "first", lines)
			first.die(t, front, &clock)
			before := 0
			// The client knows what the first attempt has written, which may come after the message.
			statetest.Eventually(t, func() bool {
				before, _ = run.Segments().Numbered()
				return before > 0 && strings.HasSuffix(run.Task().StatusMessage,
					"(attempt 2: its worker is gone)")
			})
			take(t, second, "second", lines)
			second.die(t, front, &clock)
			<-run.Ended()
			end := run.Task()
			if end.Status != mcp.TaskFailed ||
				!strings.Contains(end.StatusMessage, "the worker second died in attempt 2 of this task") {
				t.Errorf("%+v", end)
			}
			if one := <-told; len(told) != 0 || one.StatusMessage != end.StatusMessage {
				t.Errorf("%d more told, the first: %+v", len(told), one)
			}
			if after, _ := run.Segments().Numbered(); after <= before {
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
			// A worker that dies may have stored its last one, and not yet cut the log for it.
			const batch = 8 * partials.ExtentBytes
			if size := int64(len(got)); lines > 100 &&
				(size > 1<<20+batch+2*partials.ExtentBytes || size < 1<<19) {
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

// A plain call that waits when its front dies is not run any more, and one whose client has got the id is.
func TestFrontDies(t *testing.T) {
	t.Parallel()
	url := startServer(t, t.TempDir(), 0).ClientURL()
	for range 2 {
		var clock statetest.Clock
		front, worker := newState(t, url, at(&clock)), newState(t, url, at(&clock))
		r := statetest.NewRunner(t, run.Options{State: front})
		offer := tasks.Offer{Class: "builds", Timeout: time.Hour, Arguments: json.RawMessage(`{}`)}
		var made [2]*run.Run
		for i := range made {
			var err error
			work := func(ctx context.Context,
				task *run.Run) run.Done {
				return run.Done{Err: task.Offer(ctx, offer)}
			}
			made[i], err = r.Start(t.Context(), run.Spec{Late: true, Work: work})
			if err != nil {
				t.Fatal(err)
			}
			made[i].Delivered()
			<-made[i].Detached()
		}
		plain, handed := made[0], made[1]
		if err := handed.Promote(t.Context()); err != nil {
			t.Fatal(err)
		}
		front.die(t, worker, &clock)
		clock.Add(engine.LeaseTTL)
		_, err := statetest.Shared(worker).Take(t.Context(), statetest.Working(plain.ID()), []byte(`{}`))
		if !errors.Is(err, tasks.ErrEnded) {
			t.Errorf("what has no client is run: %v", err)
		}
		if end := statetest.Get(t, worker, plain.ID()); end.Status != mcp.TaskCancelled {
			t.Errorf("%+v", end)
		}
		if _, err := statetest.Shared(worker).Take(t.Context(), statetest.Working(handed.ID()), []byte(`{}`)); err != nil {
			t.Errorf("what was handed over is not run: %v", err)
		}
	}
}

// Offers that are not runnel's are refused and counted, and the next one is served.
func TestPoisonedOffers(t *testing.T) {
	t.Parallel()
	url := startServer(t, t.TempDir(), 0).ClientURL()
	var clock statetest.Clock
	front, worker := newState(t, url), newState(t, url, at(&clock))
	clock.Add(2 * hintTime) // it reads what is stored
	sp, err := front.space(t.Context(), "local")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sp.openQueue(t.Context()); err != nil {
		t.Fatal(err)
	}
	poison := func(subject string, data []byte) {
		t.Helper()
		if _, err := sp.c.js.Publish(t.Context(), subject, data); err != nil {
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
	if end := garbled.Task(); end.Status != mcp.TaskFailed ||
		!strings.Contains(end.StatusMessage, "cannot be read") {
		t.Errorf("%+v", end)
	}
	if got := statetest.Get(t, front, newer.ID()); !got.Waiting {
		t.Errorf("%+v", got)
	}
	if got := statetest.Get(t, worker, "theirs"); got.Status != mcp.TaskWorking || got.Waiting {
		t.Errorf("%+v", got)
	}
	if err := statetest.Queue(worker).Announce(t.Context(), &tasks.Worker{Host: "there"}); err != nil {
		t.Fatal(err)
	}
	poison(sp.alive+"forged.worker", []byte("garbage"))
	list, _, err := statetest.Queue(front).Fleet(t.Context())
	if err != nil || len(list) != 1 || list[0].Refused != 4 {
		t.Errorf("%+v, %v", list, err)
	}
	if err := statetest.Queue(front).Offer(t.Context(), "theirs",
		tasks.Offer{Class: "builds", Arguments: make([]byte, maxOffer)}); err == nil {
		t.Error("an offer that is too large is made")
	}
	if err := statetest.Queue(front).Offer(t.Context(), "theirs", tasks.Offer{Class: "a.b"}); err == nil {
		t.Error("a class with a dot is taken")
	}
}

// A replica that lags may not show that a task resumes, or what its work has noted since: a process that has
// read that does not take the task from its keeper.
func TestTakenByWhatAReplicaLacks(t *testing.T) {
	t.Parallel()
	url := startServer(t, t.TempDir(), 0).ClientURL()
	here, there := newState(t, url), newState(t, url)
	for _, id := range []string{"a", "b"} {
		statetest.Put(t, here, statetest.Working(id))
		sp := spaceOf(t, there)
		before, err := sp.Lookup(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		note := json.RawMessage(`{"` + tasks.ResumeNote + `":"tool@1"}`)
		if _, err := here.Open("local").SetVariables(t.Context(), id, note); err != nil {
			t.Fatal(err)
		}
		sp.Offered(before)
		if _, err := statetest.Shared(there).Take(t.Context(), statetest.Working(id), []byte(`{}`)); err == nil {
			t.Error("it was taken although its keeper lives")
		}
		statetest.Put(t, here, statetest.Ended(statetest.Working(id), mcp.TaskCompleted, "done"))
	}
}

// deaf is a store that hears no answer to a Take, and cannot read for some time then.
type deaf struct {
	engine.Driver
	away bool
}

func (d *deaf) Take(ctx context.Context, r *engine.Record, before string) error {
	d.away = true
	return errors.Join(d.Driver.Take(ctx, r, before), engine.Away{Err: errors.New("no answer")})
}

func (d *deaf) Read(ctx context.Context, id string) (*engine.Record, error) {
	if d.away {
		return nil, engine.Away{Err: errors.New("no answer")}
	}
	return d.Driver.Read(ctx, id)
}

// A task that a worker has taken without having been told so is not left lying: it waits again, and that is
// not one of its attempts.
func TestTakenUnheard(t *testing.T) {
	t.Parallel()
	url := startServer(t, t.TempDir(), 0).ClientURL()
	front, worker := newState(t, url), newState(t, url)
	run := offer(t, front, tasks.Offer{})
	sp := spaceOf(t, worker).Space
	sp.Stop() // it does nothing by itself
	hears := sp.Driver
	unheard := &deaf{Driver: hears}
	sp.Driver = unheard
	if _, err := statetest.Shared(worker).Take(t.Context(), statetest.Working(run.ID()),
		[]byte(`{"host":"there"}`)); !errors.Is(err, tasks.ErrBusy) {
		t.Fatal(err)
	}
	unheard.away = false
	for range 2 {
		if got := statetest.Get(t, front, run.ID()); got.Waiting {
			t.Error("it is taken away at the first look")
		}
		if err := sp.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := statetest.Get(t, front, run.ID()); !got.Waiting || got.Attempt != 0 {
		t.Errorf("%+v", got)
	}
}

// A worker that ends, and has taken a task without having been told so, lets it wait: that is not an attempt,
// and the task has no other.
func TestTakenUnheardAtTheEnd(t *testing.T) {
	t.Parallel()
	url := startServer(t, t.TempDir(), 0).ClientURL()
	front, worker := newState(t, url), newState(t, url)
	run := offer(t, front, tasks.Offer{})
	sp := spaceOf(t, worker).Space
	sp.Stop()
	unheard := &deaf{Driver: sp.Driver}
	sp.Driver = unheard
	if _, err := statetest.Shared(worker).Take(t.Context(), statetest.Working(run.ID()),
		[]byte(`{"host":"there"}`)); !errors.Is(err, tasks.ErrBusy) {
		t.Fatal(err)
	}
	unheard.away = false
	if err := worker.Close(); err != nil {
		t.Fatal(err)
	}
	if got := statetest.Get(t, front, run.ID()); !got.Waiting || got.Attempt != 0 {
		t.Errorf("%+v", got)
	}
}

// A worker that hears no answer to a Take, but can read that it was stored, has taken the task.
func TestTakenUnheardButRead(t *testing.T) {
	t.Parallel()
	url := startServer(t, t.TempDir(), 0).ClientURL()
	front, worker := newState(t, url), newState(t, url)
	run := offer(t, front, tasks.Offer{})
	sp := spaceOf(t, worker).Space
	sp.Stop()
	hears := sp.Driver
	sp.Driver = deafOnce{hears}
	task, err := statetest.Shared(worker).Take(t.Context(), statetest.Working(run.ID()), []byte(`{"host":"there"}`))
	if err != nil || task.Attempt != 1 {
		t.Fatalf("%+v, %v", task, err)
	}
	sp.Driver = hears
	statetest.Put(t, worker, statetest.Ended(task, mcp.TaskCompleted, "done"))
	<-run.Ended()
	if end := run.Task(); end.Status != mcp.TaskCompleted {
		t.Errorf("%+v", end)
	}
}

// deafOnce hears no answer to a Take, and can read.
type deafOnce struct{ engine.Driver }

func (d deafOnce) Take(ctx context.Context, r *engine.Record, before string) error {
	return errors.Join(d.Driver.Take(ctx, r, before), engine.Away{Err: errors.New("no answer")})
}

// A mark stands before its record: a sweep that looks in between leaves it, or nobody would find the task
// when its keeper is gone.
func TestMarkBeforeRecord(t *testing.T) {
	t.Parallel()
	url := startServer(t, t.TempDir(), 0).ClientURL()
	var clock statetest.Clock
	here, there := newState(t, url), newState(t, url, at(&clock))
	sp, other := spaceOf(t, here), spaceOf(t, there)
	sp.Stop()
	sp.unlease(t)
	for _, keeper := range []string{engine.QueueKeeper, here.Keeper} {
		if _, err := here.c.js.Publish(t.Context(), sp.marks("a", keeper, false), nil); err != nil {
			t.Fatal(err)
		}
	}
	marks := func() int {
		list, err := sp.subjects(t.Context(), sp.name, sp.marks("a", "*", false))
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	if err := other.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	later(t, other, &clock)
	later(t, other, &clock)
	if marks() != 2 {
		t.Errorf("%d marks are left before their record has come", marks())
	}
	clock.Add(2 * time.Minute)
	later(t, other, &clock)
	if marks() != 0 {
		t.Errorf("%d marks are left for good", marks())
	}
}

// A task whose message in the work queue was lost is shown to workers again.
func TestLostOffer(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(sp *space) error{
		"stream deleted": func(sp *space) error {
			err := sp.c.js.DeleteStream(t.Context(), sp.queueName)
			_ = sp.Sweep(t.Context()) // finds that the queue is lost, if no other look has
			return err
		},
		"message deleted": func(sp *space) error {
			queue, err := sp.openQueue(t.Context())
			if err == nil {
				err = queue.Purge(t.Context())
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			url := startServer(t, t.TempDir(), 0).ClientURL()
			var clock statetest.Clock
			front, worker := newState(t, url, at(&clock)), newState(t, url)
			run := offer(t, front, tasks.Offer{})
			sp, err := front.space(t.Context(), "local")
			if err == nil {
				err = lose(sp)
			}
			if err != nil {
				t.Fatal(err)
			}
			clock.Add(engine.AckWait + time.Second)
			if err := sp.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if o, err := worker.Next(ctx, []string{"local"}, []string{"builds"}); err != nil ||
				o.Task.ID != run.ID() {
				t.Errorf("%+v, %v", o, err)
			}
		})
	}
}

// An offer that was lost on its way to a worker is given to the next one soon.
func TestLostDelivery(t *testing.T) {
	t.Parallel()
	url := startServer(t, t.TempDir(), 0).ClientURL()
	front, worker := newState(t, url), newState(t, url)
	run := offer(t, front, tasks.Offer{})
	lost, err := worker.Next(t.Context(), []string{"local"}, []string{"builds"}) // nobody hears of it
	if err != nil || lost.Task.ID != run.ID() {
		t.Fatalf("%+v, %v", lost, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	o, err := worker.Next(ctx, []string{"local"}, []string{"builds"})
	if err != nil || o.Task.ID != run.ID() {
		t.Errorf("%+v, %v", o, err)
	}
}
