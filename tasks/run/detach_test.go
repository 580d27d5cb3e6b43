package run_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/run"
	"runnel/tasks/sqlite"
	"runnel/tasks/statetest"
)

// hears is a client that is told of statuses only.
type hears func(mcp.Task)

func (h hears) Status(t mcp.Task) { h(t) }

func (hears) Silence() {}

func (hears) Asked(*run.Question) (func(), error) { return nil, nil }

func (hears) Progress(tasks.Progress) {}

// threeProcesses are runners on one state: a starter, a supervisor, and one that looks on.
func threeProcesses(t *testing.T) (starter, supervisor, third *run.Runner) {
	t.Helper()
	return threeWithClock(t, &run.WallClock{})
}

func threeWithClock(t *testing.T, clock *run.WallClock) (starter, supervisor, third *run.Runner) {
	t.Helper()
	dir := t.TempDir()
	var list [3]*run.Runner
	for n := range list {
		list[n] = statetest.NewRunner(t, run.Options{State: openStore(t, sqlite.Options{Dir: dir, Now: clock.Now}),
			Log: zerolog.Nop()}.WithClock(clock.Now))
	}
	return list[0], list[1], list[2]
}

// detached starts a task whose work another runner takes. It returns the starter's run and the supervisor's.
func detached(t *testing.T, starter, supervisor *run.Runner, spec run.Spec,
	work run.Work) (here, there *run.Run) {
	t.Helper()
	taken, handed := make(chan *run.Run, 1), make(chan error, 1)
	spec.Work = func(ctx context.Context, task *run.Run) run.Done {
		err := task.Detach(ctx, func() error {
			there, err := supervisor.Take(ctx, task.ID(), []byte("{}"), run.Spec{Tool: "tool", Work: work})
			if err == nil {
				there.Begin()
				there.Delivered()
				taken <- there
			}
			return err
		})
		handed <- err
		return run.Done{Err: err}
	}
	here, err := starter.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	err = <-handed
	select {
	case <-here.Detached():
	default: // its ttl was over before, on a busy machine
		t.Fatalf("the other runner has not taken the task (%v): %+v", err, here.Task())
	}
	return here, <-taken
}

// segments are those of a response.
func segments(t *testing.T, line []byte) []json.RawMessage {
	var m struct {
		Result struct {
			Content []json.RawMessage `json:"partial-content"`
		}
	}
	if err := json.Unmarshal(line, &m); err != nil {
		t.Errorf("%v: %s", err, line)
	}
	return m.Result.Content
}

// The end of a task is not told as older than what was told of it before, though the supervisor ended it
// before this process saw that.
func TestDetachedEndIsTheNewest(t *testing.T) {
	starter, supervisor, _ := threeProcesses(t)
	end := make(chan struct{})
	here, there := detached(t, starter, supervisor,
		run.Spec{Handle: true}, func(context.Context, *run.Run) run.Done {
			<-end
			return run.Done{Result: mcp.Result("fine")}
		})
	here.Delivered()
	close(end)
	<-there.Ended()
	here.Status("a line")
	told := here.Task().UpdatedAt
	<-here.Ended()
	if got := here.Task(); got.Status != mcp.TaskCompleted || got.UpdatedAt.Before(told) {
		t.Errorf("ended %s at %v, told before: %v", got.Status, got.UpdatedAt, told)
	}
}

// Everybody reads the output as the supervisor writes it, under the same numbers, pushed, pulled or merged,
// while it runs and later.
func TestDetachedOutputIsOne(t *testing.T) {
	starter, supervisor, third := threeProcesses(t)
	step := make(chan struct{})
	here, there := detached(t, starter, supervisor,
		run.Spec{Handle: true, Merge: true}, func(ctx context.Context, running *run.Run) run.Done {
			for n := range 400 {
				if n%100 == 50 {
					<-step
				}
				chunk := partials.Chunk{Data: fmt.Appendf(nil, "line %d %s\n", n, strings.Repeat("x", n))}
				if n%30 == 0 {
					chunk = partials.Chunk{Kind: partials.Item, Data: mcp.Text(fmt.Sprintf("item %d", n))}
				}
				if err := running.Log().Append(ctx, chunk); err != nil {
					return run.Done{Err: err}
				}
			}
			return run.Done{Result: mcp.ErrorResult("all of it"), Status: "no luck",
				Rest: &[]mcp.ContentBlock{mcp.Text("the end")}}
		})
	pushed := make(chan []json.RawMessage, 1)
	here.Deliver(func(ctx context.Context) {
		var items []json.RawMessage
		take := func(line []byte) {
			for line := range strings.Lines(string(line)) {
				items = append(items, segments(t, []byte(line))...)
			}
		}
		d, r := partials.NewSEP1905([]byte(`{"jsonrpc":"2.0"`), []byte("1"), here.ID(), here.Segments()),
			here.Log().NewReader(0)
		defer r.Close()
		for {
			if err := r.Wait(ctx, 1); err == io.EOF {
				take(d.End(nil))
				pushed <- items
				return
			} else if err != nil {
				t.Errorf("reading: %v", err)
				return
			}
			if b, ok := r.Next(3000); ok { // so little that a segment is longer
				take(d.Encode(nil, b))
			}
		}
	})
	page := func(r *run.Runner, last int64) (items []json.RawMessage) {
		task, err := r.Get(t.Context(), here.ID())
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(statetest.Page(t, task.Segments, last, 1<<20).Content, &items); err != nil {
			t.Fatal(err)
		}
		return items
	}
	var early [][]json.RawMessage
	for range 4 {
		statetest.Eventually(t, func() bool { return len(page(third, 0)) > 2*len(early) })
		early = append(early, page(third, 0))
		step <- struct{}{}
	}
	got := <-pushed
	<-here.Ended()
	<-there.Ended()
	for _, items := range append(early, page(third, 0), page(starter, 0)) {
		for n, item := range items {
			if string(item) != string(got[n]) {
				t.Fatalf("segment %d is %s, pushed was %s", n+1, item, got[n])
			}
		}
	}
	if last := page(third, int64(len(got)-1)); len(last) != 1 ||
		!strings.Contains(string(last[0]), "the end") {
		t.Errorf("the last segment: %s", last)
	}
	for name, r := range map[string]*run.Runner{"starter": starter, "third": third} {
		task, err := r.Get(t.Context(), here.ID())
		if err != nil {
			t.Fatal(err)
		}
		if task.Status != mcp.TaskFailed || task.StatusMessage != "no luck" || !task.Merge || !task.Detached {
			t.Errorf("%s: %+v", name, task)
		}
		var merged []json.RawMessage
		encoded, _, err := task.Segments.Merged(1 << 20)
		if err != nil || json.Unmarshal(encoded, &merged) != nil || len(merged) != len(got) {
			t.Errorf("%s: %d segments merged, %d pushed, %v", name, len(merged), len(got), err)
		}
	}
}

// A follower of a task that another process runs sees its log grow and its end, and leaves no goroutine when
// it lets go.
func TestFollow(t *testing.T) {
	starter, supervisor, third := threeProcesses(t)
	step := make(chan struct{})
	here, _ := detached(t, starter, supervisor,
		run.Spec{Handle: true}, func(ctx context.Context, r *run.Run) run.Done {
			for range 2 {
				<-step
				_ = r.Log().Append(ctx, partials.Chunk{Data: []byte("more\n")})
			}
			<-step
			return run.Done{Result: mcp.Result("done")}
		})
	here.Delivered()
	follow := func() (*run.View, func()) {
		run, release, err := third.Follow(t.Context(), here.ID())
		if err != nil || run == nil {
			t.Fatalf("%v, %v", run, err)
		}
		return run, release
	}
	one, release := follow()
	two, releaseTwo := follow()
	if one != two {
		t.Error("two runs follow one task")
	}
	for n := range 2 {
		step <- struct{}{}
		if err := one.Log().Grown(t.Context(), int64(n*5)); err != nil {
			t.Fatal(err)
		}
	}
	if text := one.Log().Tail(100).LastLine(); text != "more" {
		t.Errorf("the last line is %q", text)
	}
	release()
	releaseTwo()
	<-one.Ended()
	if task := one.Task(); task.Status != mcp.TaskWorking {
		t.Errorf("let go: %s", task.Status)
	}
	if third.Followed(here.ID()) != nil {
		t.Error("it is still followed")
	}
	again, release := follow()
	defer release()
	waiting := make(chan tasks.Task)
	go func() {
		task, err := third.Await(context.Background(), here.ID())
		if err != nil {
			t.Error(err)
		}
		waiting <- task
	}()
	step <- struct{}{}
	if task := <-waiting; task.Status != mcp.TaskCompleted {
		t.Errorf("ended %s", task.Status)
	}
	<-again.Ended()
	if run, _, err := third.Follow(t.Context(), here.ID()); run != nil || err != nil {
		t.Errorf("a task that has ended: %v, %v", run, err)
	}
}

// A follower that comes while the last one has let go, and is not gone yet, gets a run that goes on.
func TestFollowWhileTheLastOneLetsGo(t *testing.T) {
	starter, supervisor, third := threeProcesses(t)
	here, there := detached(t, starter, supervisor, run.Spec{Handle: true}, statetest.UntilDone)
	here.Delivered()
	first, release, err := third.Follow(t.Context(), here.ID())
	if err != nil {
		t.Fatal(err)
	}
	release()
	second, releaseSecond, err := third.Follow(t.Context(), here.ID())
	if err != nil {
		t.Fatal(err)
	}
	defer releaseSecond()
	<-first.Ended()
	if second == first || third.Followed(here.ID()) != second || second.Context().Err() != nil {
		t.Errorf("the same run: %v; one runs: %v; it ends: %v", second == first,
			third.Followed(here.ID()) != nil, second.Context().Err())
	}
	there.Cancel("enough")
	<-second.Ended()
	if status := second.Task().Status; status != mcp.TaskCancelled {
		t.Errorf("followed to its end: %s", status)
	}
}

// Cancelling and ending the starter while the supervisor takes the task: it is cancelled there, or goes on
// there.
func TestDetachIsNotTornApart(t *testing.T) {
	for name, cancel := range map[string]bool{"cancelled": true, "closed": false} {
		t.Run(name, func(t *testing.T) {
			starter, supervisor, third := threeProcesses(t)
			var statuses []mcp.TaskStatus
			meanwhile := make(chan bool, 1)
			run, err := starter.Start(t.Context(),
				run.Spec{Handle: true, Client: hears(func(s mcp.Task) {
					statuses = append(statuses,
						s.Status)
				}),
					Work: func(ctx context.Context, r *run.Run) run.Done {
						return run.Done{Err: r.Detach(ctx, func() error {
							there, err := supervisor.Take(ctx, r.ID(), []byte("{}"),
								run.Spec{Work: statetest.UntilDone})
							if err != nil {
								return err
							}
							there.Begin()
							there.Delivered()
							if cancel {
								go func() { meanwhile <- r.Cancel("enough") }()
							} else {
								go func() { starter.Close(); meanwhile <- true }()
								<-r.Context().Done()
							}
							return nil
						})}
					}})
			if err != nil {
				t.Fatal(err)
			}
			run.Delivered()
			if !<-meanwhile {
				t.Error("not cancelled")
			}
			<-run.Ended()
			task, err := third.Get(t.Context(), run.ID())
			if err != nil {
				t.Fatal(err)
			}
			if want := map[bool]mcp.TaskStatus{true: mcp.TaskCancelled,
				false: mcp.TaskWorking}[cancel]; task.Status != want {
				t.Errorf("%s, want %s", task.Status, want)
			}
			if told := fmt.Sprint(statuses); cancel && told != "[cancelled]" || !cancel && told != "[]" {
				t.Errorf("the client was told %s", told)
			}
		})
	}
}

// A detached task that expires is gone everywhere, and the client that started it is told.
func TestDetachedExpires(t *testing.T) {
	var clock run.WallClock
	starter, supervisor, third := threeWithClock(t, &clock)
	told := make(chan mcp.Task, 1)
	here, there := detached(t, starter, supervisor,
		run.Spec{Handle: true, Client: hears(func(s mcp.Task) { told <- s })},
		statetest.UntilDone)
	here.Delivered()
	clock.Sleep(2 * time.Hour)
	<-there.Ended()
	<-here.Ended()
	if status := <-told; status.Status != mcp.TaskFailed || status.StatusMessage != run.ExpiredMessage {
		t.Errorf("told %+v", status)
	}
	if _, err := third.Get(t.Context(), here.ID()); !errors.Is(err, tasks.ErrNotFound) {
		t.Errorf("an expired task: %v", err)
	}
}

// How its output ends is known to what delivers it, before the log is closed, also where only the following
// of it ends.
func TestDetachedExpiryIsAnEnding(t *testing.T) {
	var clock run.WallClock
	starter, supervisor, _ := threeWithClock(t, &clock)
	here, there := detached(t, starter, supervisor,
		run.Spec{Handle: true}, func(ctx context.Context, _ *run.Run) run.Done {
			<-ctx.Done()
			return run.Done{Err: ctx.Err()}
		})
	clock.Sleep(2 * time.Hour)
	var ending partials.Ending
	here.Deliver(func(context.Context) {
		defer func() { _ = recover() }() // a client would see the process end
		r := here.Log().NewReader(0)
		defer r.Close()
		for r.Wait(context.Background(), 1) == nil {
			r.Next(1 << 10)
		}
		ending = *here.Segments().Ending()
	})
	<-here.Ended()
	<-there.Ended()
	if len(ending.Rest) != 1 || !strings.Contains(string(ending.Rest[0]), "ttl") || !ending.IsError {
		t.Errorf("the output ended with %s", ending.Rest)
	}
}

// How a detached task ends is what its supervisor has stored, though the clock has passed its ttl here
// before: the clock may be set back.
func TestDetachedEndIsTheStored(t *testing.T) {
	var clock run.WallClock
	dir := t.TempDir()
	starter := statetest.NewRunner(t,
		run.Options{State: openStore(t, sqlite.Options{Dir: dir, Now: clock.Now}),
			TTL: time.Hour}.WithClock(clock.Now))
	supervisor := statetest.NewRunner(t,
		run.Options{State: openStore(t, sqlite.Options{Dir: dir}), TTL: time.Hour})
	end := make(chan struct{})
	here, there := detached(t, starter, supervisor,
		run.Spec{Handle: true}, func(context.Context, *run.Run) run.Done {
			<-end
			return run.Done{Result: mcp.Result("fine")}
		})
	here.Delivered()
	clock.Sleep(2 * time.Hour)
	select {
	case <-here.Ended():
	case <-time.After(2 * run.WakeInterval):
	}
	close(end)
	<-there.Ended()
	<-here.Ended()
	if task := here.Task(); task.Status != mcp.TaskCompleted {
		t.Errorf("ended as %s: %s", task.Status, task.StatusMessage)
	}
}

// A supervisor that does not come leaves the task where it is.
func TestDetachFails(t *testing.T) {
	starter, _, third := threeProcesses(t)
	broken := errors.New("no process")
	run := statetest.Start(t, starter, func(ctx context.Context, r *run.Run) run.Done {
		if err := r.Detach(ctx, func() error { return broken }); err != broken {
			t.Errorf("error %v", err)
		}
		return run.Done{Result: mcp.ErrorResult("not detached"), Status: "not detached"}
	})
	run.Delivered()
	<-run.Ended()
	if task, err := third.Get(t.Context(), run.ID()); err != nil || task.Status != mcp.TaskFailed ||
		task.StatusMessage != "not detached" || task.Detached {
		t.Errorf("%+v, %v", task, err)
	}
}

// A client that does not read cannot hold the end of a detached task back from who cancels it, nor beyond its
// ttl.
func TestDetachedEndIsNotHeldBack(t *testing.T) {
	var clock run.WallClock
	starter, supervisor, _ := threeWithClock(t, &clock)
	done := func(context.Context, *run.Run) run.Done {
		return run.Done{Result: mcp.Result("done")}
	}
	stalled := func(ctx context.Context) { <-ctx.Done() }
	here, _ := detached(t, starter, supervisor, run.Spec{Handle: true}, done)
	here.Deliver(stalled)
	<-here.Worked()
	if task, err := starter.Cancel(t.Context(), here.ID()); !errors.Is(err, tasks.ErrEnded) ||
		task.Status != mcp.TaskCompleted {
		t.Errorf("cancelled: %s, %v", task.Status, err)
	}
	here, _ = detached(t, starter, supervisor, run.Spec{Handle: true}, done)
	here.Deliver(stalled)
	clock.Sleep(2 * time.Hour)
	<-here.Ended()
}
