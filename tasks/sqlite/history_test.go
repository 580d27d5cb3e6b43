package sqlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/run"
	"runnel/tasks/statetest"
)

// kept is the history of these tests.
var kept = tasks.History{Calls: 3, Age: time.Hour, Log: 64 << 10}

// people opens the state of another one's directory as people do.
func people(t *testing.T, s *State) *State {
	return openStore(t, Options{Dir: s.Dir(), Calls: true, History: kept})
}

// plainCall runs a call without a handle until it has ended.
func plainCall(t *testing.T, r *run.Runner, output string, done run.Done) *run.Run {
	t.Helper()
	run, err := r.Start(t.Context(),
		run.Spec{Tool: "test", Late: true, Arguments: []byte(`{"n":1}`),
			Work: func(ctx context.Context, task *run.Run) run.Done {
				if err := task.Log().Append(ctx, partials.Chunk{Data: []byte(output)}); err != nil {
					return run.Done{Err: err}
				}
				return done
			}})
	if err != nil {
		t.Fatal(err)
	}
	run.Delivered()
	<-run.Ended()
	return run
}

// Calls that have ended are there for people, the newest of them, with their arguments, output and results.
// Clients do not find them.
func TestHistory(t *testing.T) {
	t.Parallel()
	s := openStore(t, Options{History: kept, Limits: tasks.Limits{MaxLive: 1, MaxStartsPerMinute: 1}})
	r := statetest.NewRunner(t, run.Options{State: s})
	var runs []string
	for n := range 5 {
		output, done := fmt.Sprintf("output %d\n", n),
			run.Done{Result: mcp.Result(fmt.Sprintf("result %d", n)), Status: "fine"}
		if n == 4 {
			output, done = strings.Repeat("long\n", 100<<10),
				run.Done{Result: mcp.ErrorResult(strings.Repeat("x", 100<<10))}
		}
		runs = append(runs, plainCall(t, r, output, done).ID())
	}
	look := people(t, s)
	awaitIDs(t, look, runs[2:])
	if got := statetest.IDs(t, s, 10); len(got) > 0 {
		t.Errorf("clients find %v", got)
	}
	for n, id := range runs[2:] {
		task, err := look.Open("local").Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Open("local").Get(t.Context(), id); !errors.Is(err, tasks.ErrNotFound) {
			t.Errorf("a client finds %s: %v", id, err)
		}
		text, _ := mcp.TextOf(task.Outcome.Result.Content[0])
		output := statetest.ReadAll(t, task.Log)
		if string(task.Arguments) != `{"n":1}` || task.TTL != time.Hour || task.Tool != "test" {
			t.Errorf("%+v", task)
		}
		switch n += 2; {
		case n < 4 && (task.Status != mcp.TaskCompleted || task.StatusMessage != "fine" ||
			text != fmt.Sprintf("result %d", n) || output != fmt.Sprintf("output %d\n", n)):
			t.Errorf("call %d: %s %q %q %q", n, task.Status, task.StatusMessage, text, output)
		case n == 4 && (task.Status != mcp.TaskFailed || !strings.Contains(text, "bytes left out") ||
			len(output) > 70<<10 || !strings.HasSuffix(output, "long\nlong\n") || task.Log.Size() != 500<<10):
			t.Errorf("the long call: %s %.100q, %d bytes of output", task.Status, text, len(output))
		}
	}
	if err := look.Open("local").Delete(t.Context(), runs[2]); err != nil {
		t.Fatal(err)
	}
	awaitIDs(t, look, runs[3:])
	if gone, left, err := look.Open("local").(*store).Forget(t.Context(), time.Now(), false); err != nil ||
		len(gone) != 2 || left != 0 {
		t.Errorf("pruned %d, left %d, %v", len(gone), left, err)
	}
	awaitIDs(t, look, nil)
}

func awaitIDs(t *testing.T, s *State, want []string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; <-time.After(20 * time.Millisecond) {
		got := statetest.IDs(t, s, 10)
		ended := !slices.ContainsFunc(got, func(id string) bool {
			task, err := s.Open("local").Head(t.Context(), id)
			return err != nil || !task.Status.Terminal()
		})
		if slices.Equal(got, want) && ended {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("listed are %v, want %v", got, want)
		}
	}
}

// A call that was stored while it ran stays with the end of its output; so does one whose process died, as
// failed.
func TestHistoryOfStoredCalls(t *testing.T) {
	t.Parallel()
	s := openStore(t, Options{History: kept})
	ended, want, done := spiller(t, statetest.NewRunner(t, run.Options{State: s}))
	close(done)
	<-ended.Ended()
	lost, _, _ := spiller(t, statetest.NewRunner(t, run.Options{State: s}))
	s.die()
	told := make(chan string, 2)
	look := openStore(t, Options{Dir: s.Dir(), Calls: true, History: kept,
		Recovered: func(task *tasks.Task) { told <- task.ID }})
	awaitIDs(t, look, []string{ended.ID(), lost.ID()})
	task, err := look.Open("local").Get(t.Context(), ended.ID())
	if err != nil {
		t.Fatal(err)
	}
	if got := statetest.ReadAll(t, task.Log); task.Status != mcp.TaskCompleted ||
		!strings.HasSuffix(got, string(want[len(want)-60<<10:])) {
		t.Errorf("%s, output of %d bytes", task.Status, len(got))
	}
	if task, err = look.Open("local").Get(t.Context(), lost.ID()); err != nil || task.Status != mcp.TaskFailed ||
		!strings.Contains(task.StatusMessage, "is gone") {
		t.Errorf("the call of a dead process: %s %q, %v", task.Status, task.StatusMessage, err)
	}
	if err := look.db.shortenHistory(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{ended.ID(), lost.ID()} {
		task, err := look.Open("local").Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		var bytes int
		if err := look.db.read.QueryRowContext(t.Context(),
			"SELECT sum(stop - start) FROM log JOIN task ON task = number WHERE id = ?", id).
			Scan(&bytes); err != nil || bytes > 192<<10 || bytes < 60<<10 {
			t.Errorf("%d bytes of output are kept, %v", bytes, err)
		}
		if got := statetest.ReadAll(t, task.Log); len(got) != bytes || !strings.HasSuffix(got, "\n") {
			t.Errorf("the output is %d bytes of the %d that are kept, and begins %.80q", len(got), bytes, got)
		}
	}
	select {
	case id := <-told:
		t.Errorf("a notice of %s, which nobody waits for", id)
	default:
	}
}

// Tasks whose ttl is over stay for people as calls do, the newest of them. Clients do not find them.
func TestExpiredTasksAreHistory(t *testing.T) {
	t.Parallel()
	var later atomic.Int64
	now := func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	s := openStore(t, Options{History: kept, Now: now})
	r := run.NewRunner(run.Options{State: s, TTL: time.Minute})
	var ids []string
	for n := range 5 {
		result := mcp.Result(fmt.Sprintf("result %d", n))
		if n == 4 {
			result = mcp.Result(strings.Repeat("x", 100<<10))
		}
		task := statetest.Start(t, r, func(context.Context,
			*run.Run) run.Done {
			return run.Done{Result: result}
		})
		task.Delivered()
		<-task.Ended()
		ids = append(ids, task.ID())
	}
	r.Close()
	later.Store(int64(2 * time.Minute))
	look := openStore(t, Options{Dir: s.Dir(), Calls: true, History: kept, Now: now})
	awaitIDs(t, look, ids) // also before the sweep
	for range 2 {
		if err := look.db.sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		awaitIDs(t, look, ids[2:])
	}
	for n, want := range []string{2: "result 2", 3: "result 3",
		4: "The history keeps no result of this size."} {
		if want == "" {
			continue
		}
		task, err := look.Open("local").Get(t.Context(), ids[n])
		if err != nil {
			t.Fatal(err)
		}
		if text, _ := mcp.TextOf(task.Outcome.Result.Content[0]); task.Status != mcp.TaskCompleted ||
			text != want {
			t.Errorf("%s %.100q, want %q", task.Status, text, want)
		}
		if _, err := s.Open("local").Get(t.Context(), ids[n]); !errors.Is(err, tasks.ErrNotFound) {
			t.Errorf("a client finds %s: %v", ids[n], err)
		}
	}
	later.Store(int64(2 * time.Hour))
	if err := look.db.sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	awaitIDs(t, look, nil)
}

// Without a history nothing stays.
func TestNoHistory(t *testing.T) {
	t.Parallel()
	s := openStore(t, Options{})
	r := run.NewRunner(run.Options{State: s})
	plainCall(t, r, "output\n", run.Done{})
	plainCall(t, r, "output\n", run.Done{})
	r.Close()
	if s.Exists() {
		t.Error("a call without a handle has made a state")
	}
}

// The history of a state costs a call no write: what ends in a burst is stored together, and no more of it
// than is kept.
func BenchmarkHistory(b *testing.B) {
	for name, history := range map[string]tasks.History{"off": {},
		"on": {Calls: 200, Age: time.Hour, Log: 64 << 10}} {
		b.Run(name, func(b *testing.B) {
			r := run.NewRunner(run.Options{State: openStore(b, Options{History: history})})
			defer r.Close()
			text := bytes.Repeat([]byte("x"), 100)
			b.ReportAllocs()
			for b.Loop() {
				run, err := r.Start(b.Context(),
					run.Spec{Tool: "test", Late: true,
						Work: func(ctx context.Context, task *run.Run) run.Done {
							return run.Done{Err: task.Log().Append(ctx, partials.Chunk{Data: text})}
						}})
				if err != nil {
					b.Fatal(err)
				}
				run.Delivered()
				<-run.Ended()
			}
		})
	}
}
