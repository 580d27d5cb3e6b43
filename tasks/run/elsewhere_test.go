package run_test

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"runnel/partials"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/run"
	"runnel/tasks/sqlite"
	"runnel/tasks/statetest"
	"runnel/tasks/statetest/fake"
)

func openStore(t testing.TB, o sqlite.Options) *sqlite.State {
	t.Helper()
	if o.Dir == "" {
		o.Dir = filepath.Join(t.TempDir(), "state")
	}
	o.Log = zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.WarnLevel)
	s := sqlite.New(o)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func question(t *testing.T, r *run.Run) *run.Question {
	t.Helper()
	q := &run.Question{Message: "really?"}
	if err := r.Ask(q); err != nil {
		t.Fatal(err)
	}
	return q
}

// Cancelling and waiting reach a task that another process runs.
func TestTaskElsewhere(t *testing.T) {
	dir := t.TempDir()
	here, there := run.NewRunner(run.Options{State: openStore(t, sqlite.Options{Dir: dir})}),
		run.NewRunner(run.Options{State: openStore(t, sqlite.Options{Dir: dir})})
	defer here.Close()
	defer there.Close()
	first, second := statetest.Start(t, there, statetest.UntilDone),
		statetest.Start(t, there, func(context.Context, *run.Run) run.Done {
			return run.Done{Result: mcp.Result("done there")}
		})
	first.Deliver(func(ctx context.Context) { <-ctx.Done() })
	got, err := here.Get(t.Context(), first.ID())
	if err != nil || got.Status != mcp.TaskWorking {
		t.Fatalf("%s, %v", got.Status, err)
	}
	if got, err = here.Cancel(t.Context(), first.ID()); err != nil || got.Status != mcp.TaskCancelled {
		t.Errorf("cancelled from elsewhere: %s, %v", got.Status, err)
	}
	<-first.Ended()
	if got, err = here.Cancel(t.Context(), first.ID()); !errors.Is(err, tasks.ErrEnded) {
		t.Errorf("cancelled again: %s, %v", got.Status, err)
	}
	awaited := make(chan tasks.Task)
	go func() {
		task, err := here.Await(context.Background(), second.ID())
		if err != nil {
			t.Error(err)
		}
		awaited <- task
	}()
	second.Delivered()
	if task := <-awaited; task.Status != mcp.TaskCompleted || task.Outcome == nil {
		t.Errorf("awaited from elsewhere: %+v", task)
	}
	other := run.NewRunner(run.Options{State: openStore(t, sqlite.Options{Dir: dir}), Owner: "other"})
	defer other.Close()
	if _, err := other.Cancel(t.Context(), second.ID()); !errors.Is(err, tasks.ErrNotFound) {
		t.Errorf("cancelled by somebody else: %v", err)
	}
}

// slowAsk is a store whose write lock another process holds for a while: to ask for a cancellation takes
// long, and is followed at once.
type slowAsk struct {
	fake.Alone
	task  tasks.Task
	asked time.Time
}

func (s *slowAsk) Ask(context.Context, string) error {
	time.Sleep(time.Minute)
	s.asked = time.Now()
	return nil
}

func (s *slowAsk) Watch(ctx context.Context, t *tasks.Task) error {
	select {
	case <-time.After(time.Second):
		t.Status = mcp.TaskCancelled
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *slowAsk) Get(context.Context, string) (tasks.Task, error) {
	t := s.task
	if !s.asked.IsZero() && time.Since(s.asked) >= time.Second {
		t.Status = mcp.TaskCancelled
	}
	return t, nil
}

func (s *slowAsk) Head(ctx context.Context, id string) (tasks.Task, error) {
	return s.Get(ctx, id)
}

// The process that runs a task has all of its time to cancel it, counted from when it could know of the
// cancellation.
func TestAskTimeoutBeginsWhenAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := statetest.NewRunner(t, run.Options{State: fake.State(&slowAsk{task: statetest.Working("a")}),
			AskTimeout: 10 * time.Second})
		if task, err := r.Cancel(t.Context(), "a"); err != nil || task.Status != mcp.TaskCancelled {
			t.Errorf("%s, %v", task.Status, err)
		}
	})
}

// Two runnels on one state give one number to a segment of a task that one of them runs.
func TestNumbersElsewhere(t *testing.T) {
	dir := t.TempDir()
	here, there := statetest.NewRunner(t, run.Options{State: openStore(t, sqlite.Options{Dir: dir})}),
		statetest.NewRunner(t, run.Options{State: openStore(t, sqlite.Options{Dir: dir})})
	lines := make(chan string)
	running, err := here.Start(t.Context(),
		run.Spec{Handle: true, Merge: true, Work: func(ctx context.Context, running *run.Run) run.Done {
			for line := range lines {
				if err := running.Log().Append(ctx, partials.Chunk{Data: []byte(line)}); err != nil {
					return run.Done{Err: err}
				}
			}
			return run.Done{Rest: new([]mcp.ContentBlock)}
		}})
	if err != nil {
		t.Fatal(err)
	}
	running.Delivered()
	page := func(r *run.Runner, last int64) string {
		task, err := r.Get(t.Context(), running.ID())
		if err != nil {
			t.Fatal(err)
		}
		return string(statetest.Page(t, task.Segments, last, 1<<20).Content)
	}
	end := sync.OnceFunc(func() { close(lines) })
	defer end()
	lines <- "one\n"
	statetest.Eventually(t, func() bool { return page(here, 0) != "[]" })
	want := `[{"seqNr":2,"type":"text","text":"two\n"}]`
	lines <- "two\n"
	statetest.Eventually(t, func() bool { return page(there, 1) != "[]" })
	if got := page(there, 1); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	lines <- "three\n"
	statetest.Eventually(t, func() bool { return page(there, 2) != "[]" })
	end()
	<-running.Ended()
	want = `[{"seqNr":2,"type":"text","text":"two\n"},{"seqNr":3,"type":"text","text":"three\n"}]`
	for _, r := range []*run.Runner{here, there} {
		if got := page(r, 1); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// The last message of another process's task is the last line of its output, also after a large chunk.
func TestSaysElsewhere(t *testing.T) {
	dir := t.TempDir()
	here, there := run.NewRunner(run.Options{State: openStore(t, sqlite.Options{Dir: dir})}),
		run.NewRunner(run.Options{State: openStore(t, sqlite.Options{Dir: dir})})
	defer here.Close()
	defer there.Close()
	run := statetest.Start(t, there, func(ctx context.Context, run *run.Run) run.Done {
		for _, text := range []string{strings.Repeat("much ", tasks.TailBytes) + "\n", "the last line\n"} {
			if err := run.Log().Append(ctx, partials.Chunk{Data: []byte(text)}); err != nil {
				t.Error(err)
			}
		}
		return statetest.UntilDone(ctx, run)
	})
	statetest.Eventually(t, func() bool {
		got, err := here.Get(t.Context(), run.ID())
		return err == nil && got.StatusMessage == "the last line"
	})
}

// hasty is a store on which another process cancels a task while the one that runs it still stores it.
type hasty struct {
	tasks.Shared
	other  tasks.Shared
	runner *run.Runner
	asked  chan struct{} // receives when the runner has heard of the cancellation
}

func (s *hasty) Heed(ctx context.Context) (asked, fenced []string, err error) {
	asked, fenced, err = s.Shared.Heed(ctx)
	if len(asked) > 0 {
		select {
		case s.asked <- struct{}{}:
		default:
		}
	}
	return asked, fenced, err
}

func (s *hasty) Put(ctx context.Context, t tasks.Task) error {
	if err := s.Shared.Put(ctx, t); err != nil || t.Status.Terminal() {
		return err
	}
	run := s.runner.Running(t.ID)
	if err := s.other.Ask(ctx, t.ID); err != nil {
		return err
	}
	<-s.asked
	select {
	case <-run.Ended():
	case <-time.After(100 * time.Millisecond): // it must not end yet, however long this takes
	}
	return nil
}

// lives notes what an Observer is told of tasks.
type lives struct {
	run.Observer
	told []string
}

func (l *lives) Created(string) { l.told = append(l.told, "created") }

func (l *lives) Ended(_ string, status mcp.TaskStatus, _ time.Duration) {
	l.told = append(l.told, string(status))
}

// hearing notes what a Client is told of a run.
type hearing struct{ told []string }

func (h *hearing) Status(t mcp.Task) { h.told = append(h.told, string(t.Status)) }

func (h *hearing) Silence() { h.told = append(h.told, "silenced") }

func (*hearing) Asked(*run.Question) (func(), error) { return nil, nil }

func (*hearing) Progress(tasks.Progress) {}

// A task that is cancelled from elsewhere before its start is over ends after it, and its expiry with it.
func TestCancelledWhileItIsStored(t *testing.T) {
	for name, handle := range map[string]bool{"started": true, "promoted": false} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			told := &lives{}
			client := &hearing{}
			store := &hasty{Shared: statetest.Shared(openStore(t, sqlite.Options{Dir: dir})),
				other: statetest.Shared(openStore(t, sqlite.Options{Dir: dir})), asked: make(chan struct{}, 1)}
			store.runner = statetest.NewRunner(t, run.Options{State: fake.State(store), Observer: told})
			run, err := store.runner.Start(t.Context(),
				run.Spec{Handle: handle, Client: client, Work: func(context.Context, *run.Run) run.Done {
					return run.Done{Result: mcp.Result("done")}
				}})
			if err != nil {
				t.Fatal(err)
			}
			if err := run.Promote(t.Context()); !handle && err != nil {
				t.Error(err)
			}
			<-run.Ended()
			if got := run.Task().Status; got != mcp.TaskCancelled || store.runner.Running(run.ID()) != nil {
				t.Errorf("status %s, still running: %v", got, store.runner.Running(run.ID()) != nil)
			}
			if want := []string{"created", "cancelled"}; !slices.Equal(told.told, want) {
				t.Errorf("told %q, want %q", told.told, want)
			}
			if want := []string{"silenced", "cancelled"}; !slices.Equal(client.told, want) {
				t.Errorf("the client heard %q, want %q", client.told, want)
			}
			if run.ExpiryWaits() {
				t.Error("its expiry is still waited for")
			}
		})
	}
}

// runElsewhere is a task that another runner on the same state runs.
func runElsewhere(t *testing.T) (here, there *run.Runner, s *run.Run) {
	dir := t.TempDir()
	here, there = statetest.NewRunner(t, run.Options{State: openStore(t, sqlite.Options{Dir: dir})}),
		statetest.NewRunner(t, run.Options{State: openStore(t, sqlite.Options{Dir: dir})})
	s = statetest.Start(t, there, statetest.UntilDone)
	s.Delivered()
	return here, there, s
}

// Questions are known to the process that runs the task only. Another one acknowledges no answer that nobody
// gets; what comes when the task asks no more is ignored, as it is where the task runs.
func TestQuestionsElsewhere(t *testing.T) {
	here, there, s := runElsewhere(t)
	q := question(t, s)
	answer := mcp.UpdateTaskParams{TaskID: s.ID(),
		InputResponses: map[string]json.RawMessage{q.Key(): json.RawMessage(`{"action":"decline"}`)}}
	var refused *rpc.Error
	if err := here.Answer(t.Context(), answer.TaskID, answer.InputResponses); !errors.As(err, &refused) ||
		refused.Code != mcp.CodeInvalidParams {
		t.Errorf("answered elsewhere: %v", err)
	}
	_, release, err := here.Follow(t.Context(), s.ID())
	if err != nil {
		t.Fatal(err)
	}
	if err := here.Answer(t.Context(), answer.TaskID, answer.InputResponses); !errors.As(err, &refused) ||
		refused.Code != mcp.CodeInvalidParams {
		t.Errorf("answered where it is followed: %v", err)
	}
	release()
	if err := there.Answer(t.Context(), answer.TaskID, answer.InputResponses); err != nil {
		t.Errorf("answered there: %v", err)
	}
	<-q.Answered()
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	if err := here.Answer(t.Context(), answer.TaskID, answer.InputResponses); err != nil {
		t.Errorf("answered later: %v", err)
	}
	s.Cancel("")
	<-s.Ended()
	if err := here.Answer(t.Context(), answer.TaskID, answer.InputResponses); err != nil {
		t.Errorf("answered in the end: %v", err)
	}
}

// Other processes see a question that is open, not one that has been answered.
func TestStatusElsewhereSaysWhatIsAsked(t *testing.T) {
	here, _, s := runElsewhere(t)
	says := func(want mcp.TaskStatus, message string) {
		t.Helper()
		got, err := here.Get(t.Context(), s.ID())
		if err != nil || got.Status != want || got.StatusMessage != message ||
			want == mcp.TaskInputRequired && !got.UpdatedAt.Equal(s.Task().UpdatedAt) {
			t.Errorf("status %s %q of %v, %v; want %s %q", got.Status, got.StatusMessage, got.UpdatedAt, err,
				want, message)
		}
	}
	var asked []*run.Question
	for _, message := range []string{"first?", "second?", "third?"} {
		q := &run.Question{Message: message}
		if err := s.Ask(q); err != nil {
			t.Fatal(err)
		}
		asked = append(asked, q)
		says(mcp.TaskInputRequired, "first?")
	}
	_ = s.Answer(t.Context(), map[string]json.RawMessage{asked[0].Key(): json.RawMessage(`{}`)})
	for i, want := range []string{"second?", "third?"} {
		if err := asked[i].Close(); err != nil { // the first has been answered, the second is taken back
			t.Fatal(err)
		}
		says(mcp.TaskInputRequired, want)
	}
	if err := asked[2].Close(); err != nil {
		t.Fatal(err)
	}
	says(mcp.TaskWorking, "")
}

// Limits hold for an owner over all processes, and for no other owner.
func TestLimitsHoldOverProcesses(t *testing.T) {
	dir := t.TempDir()
	limits := tasks.Limits{MaxLive: 3, MaxStartsPerMinute: 5}
	runner := func(owner string) *run.Runner {
		return statetest.NewRunner(t, run.Options{State: openStore(t,
			sqlite.Options{Dir: dir, Limits: limits}), Owner: owner, Limits: limits})
	}
	one := runner("local")
	two := runner("local")
	other := runner("other")
	var runs []*run.Run
	for _, r := range []*run.Runner{one, two, one} {
		runs = append(runs, statetest.Start(t, r, statetest.UntilDone))
	}
	refused := func(r *run.Runner, says string) {
		t.Helper()
		_, err := r.Start(t.Context(), run.Spec{Handle: true, Work: statetest.UntilDone})
		var wire *rpc.Error
		if !errors.As(err, &wire) || !strings.Contains(wire.Message, says) {
			t.Errorf("got %v, want an error that says %q", err, says)
		}
	}
	refused(two, "limit is 3 (--max-tasks")
	runs = append(runs, statetest.Start(t, other, statetest.UntilDone))
	for _, run := range runs[:3] {
		run.Delivered()
		run.Cancel("")
	}
	for range 2 {
		statetest.Start(t, two, statetest.UntilDone).Cancel("")
	}
	refused(two, "limit is 5 a minute (tasks.maxStartsPerMinute)")
	statetest.Start(t, other, statetest.UntilDone)
}

// Tasks whose ttl has passed in a sleep are stopped when the machine wakes, whoever runs them.
func TestTTLPassesInSleep(t *testing.T) {
	for name, store := range map[string]func(*run.WallClock) tasks.State{
		"memory": func(c *run.WallClock) tasks.State { m := tasks.NewMemory(); m.Now = c.Now; return m },
		"sqlite": func(c *run.WallClock) tasks.State { return openStore(t, sqlite.Options{Now: c.Now}) },
	} {
		t.Run(name, func(t *testing.T) {
			var clock run.WallClock
			r := statetest.NewRunner(t, run.Options{State: store(&clock),
				TTL: time.Hour}.WithClock(clock.Now))
			running := statetest.Start(t, r, statetest.UntilDone)
			running.Delivered()
			if shared, ok := r.State().(*sqlite.State); ok { // the supervisor of a detached one, too
				statetest.Put(t, shared, statetest.Working("detached"))
				other := statetest.NewRunner(t,
					run.Options{State: openStore(t,
						sqlite.Options{Dir: shared.Dir(), Now: clock.Now})}.WithClock(clock.Now))
				taken, err := other.Take(t.Context(), "detached", []byte("{}"),
					run.Spec{Work: statetest.UntilDone})
				if err != nil {
					t.Fatal(err)
				}
				taken.Begin()
				taken.Delivered()
				defer func() {
					select {
					case <-taken.Ended():
					case <-time.After(20 * run.WakeInterval):
						t.Error("the supervisor runs on")
					}
				}()
			}
			clock.Sleep(2 * time.Hour)
			select {
			case <-running.Ended():
			case <-time.After(20 * run.WakeInterval):
				t.Fatal("it runs on")
			}
			if task := running.Task(); task.Status != mcp.TaskFailed ||
				task.StatusMessage != run.ExpiredMessage {
				t.Errorf("ended as %s: %s", task.Status, task.StatusMessage)
			}
			if _, err := r.Get(t.Context(), running.ID()); !errors.Is(err, tasks.ErrNotFound) {
				t.Errorf("get: %v", err)
			}
			if _, err := r.Await(t.Context(), running.ID()); !errors.Is(err, tasks.ErrNotFound) {
				t.Errorf("await: %v", err)
			}
		})
	}
}

// slow is a shared store whose machine sleeps past every ttl before others hear what is asked.
type slow struct {
	tasks.Shared
	clock *run.WallClock
}

func (s *slow) Ask(context.Context, string) error {
	s.clock.Sleep(2 * time.Hour)
	return nil
}

// A task that its ttl ends, and not the cancel that comes at the same time, is not told as cancelled: its own
// client hears that it failed.
func TestCancelledAtTheEndOfItsTTL(t *testing.T) {
	for name, ahead := range map[string]time.Duration{"before": 0, "after, as seen here": 2 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			var clock run.WallClock
			now := func() time.Time { return clock.Now().Add(ahead) }
			dir := t.TempDir()
			there := statetest.NewRunner(t, run.Options{State: openStore(t, sqlite.Options{Dir: dir, Now: clock.Now}),
				TTL: time.Hour}.WithClock(clock.Now))
			here := statetest.NewRunner(t, run.Options{
				State:      fake.State(&slow{statetest.Shared(openStore(t, sqlite.Options{Dir: dir, Now: now})), &clock}),
				AskTimeout: 20 * time.Second,
			}.WithClock(now))
			r := statetest.Start(t, there, statetest.UntilDone)
			r.Delivered()
			if task, err := here.Cancel(t.Context(), r.ID()); !errors.Is(err, tasks.ErrNotFound) {
				t.Errorf("cancelled as %s, %v", task.Status, err)
			}
			<-r.Ended()
			if task := r.Task(); task.Status != mcp.TaskFailed || task.StatusMessage != run.ExpiredMessage {
				t.Errorf("ended as %s: %s", task.Status, task.StatusMessage)
			}
		})
	}
}

// A call without a handle, which its ttl does not end, is cancelled from elsewhere after that, too.
func TestCancelledAfterItsTTL(t *testing.T) {
	var clock run.WallClock
	dir := t.TempDir()
	there := statetest.NewRunner(t,
		run.Options{State: openStore(t, sqlite.Options{Dir: dir, Now: clock.Now}),
			TTL: time.Hour}.WithClock(clock.Now))
	here := statetest.NewRunner(t, run.Options{
		State:      openStore(t, sqlite.Options{Dir: dir, Now: clock.Now, Calls: true}),
		AskTimeout: 20 * time.Second,
	}.WithClock(clock.Now))
	run, err := there.Start(t.Context(), run.Spec{Late: true, Work: statetest.UntilDone})
	if err != nil {
		t.Fatal(err)
	}
	run.Delivered()
	// The task may not be stored yet.
	for _, err := here.Head(t.Context(), run.ID()); err != nil; _, err = here.Head(t.Context(), run.ID()) {
		if t.Context().Err() != nil || !errors.Is(err, tasks.ErrNotFound) {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	clock.Sleep(2 * time.Hour)
	if task, err := here.Cancel(t.Context(), run.ID()); err != nil || task.Status != mcp.TaskCancelled {
		t.Errorf("cancelled as %s, %v", task.Status, err)
	}
	<-run.Ended()
}

// blind is a shared store that cannot be read, as one on a full disk.
type blind struct {
	fake.Alone
	task tasks.Task
}

func (s *blind) Put(context.Context, tasks.Task) error { return nil }

func (s *blind) Heed(ctx context.Context) (asked, fenced []string, err error) {
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
	}
	return nil, nil, errors.New("no room")
}

func (s *blind) Get(context.Context, string) (tasks.Task, error) { return s.task, nil }

func (s *blind) Watch(context.Context, *tasks.Task) error { return errors.New("no room") }

// A state that cannot be read for long is told once, and not with every look.
func TestLooksThatFailAreToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log counted
		r := run.NewRunner(run.Options{State: fake.State(&blind{task: statetest.Working("elsewhere")}),
			Log: zerolog.New(&log).Level(zerolog.WarnLevel)})
		statetest.Start(t, r, statetest.UntilDone).Delivered()
		if _, _, err := r.Follow(t.Context(), "elsewhere"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if n := log.lines.Load(); n != 2 {
			t.Errorf("%d lines, want one of who looks for cancelled tasks and one of who follows", n)
		}
		r.Close()
	})
}

// counted counts the lines that are logged.
type counted struct{ lines atomic.Int64 }

func (c *counted) Write(line []byte) (int, error) {
	c.lines.Add(1)
	return len(line), nil
}

// Who waits for a task that another process runs hears that its ttl has ended it, though the state has
// forgotten it by then.
func TestWaitersElsewhereHearThatTheTTLIsOver(t *testing.T) {
	var clock run.WallClock
	dir := t.TempDir()
	there := statetest.NewRunner(t, run.Options{State: openStore(t, sqlite.Options{Dir: dir, Now: clock.Now}),
		TTL: time.Hour}.WithClock(clock.Now))
	here := statetest.NewRunner(t,
		run.Options{State: openStore(t, sqlite.Options{Dir: dir, Now: clock.Now})}.WithClock(clock.Now))
	for range 2 {
		r := statetest.Start(t, there, statetest.UntilDone)
		r.Delivered()
		v, release, err := here.Follow(t.Context(), r.ID())
		if err != nil || v == nil {
			t.Fatalf("follow: %v", err)
		}
		clock.Sleep(2 * time.Hour)
		task, err := here.AwaitView(t.Context(), r.ID(), v)
		release()
		if !errors.Is(err, tasks.ErrNotFound) || task.Status != mcp.TaskFailed ||
			task.StatusMessage != run.ExpiredMessage {
			t.Errorf("ended as %s: %s, %v", task.Status, task.StatusMessage, err)
		}
	}
}
