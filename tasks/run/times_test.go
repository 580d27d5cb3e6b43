package run_test

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/run"
	"runnel/tasks/sqlite"
	"runnel/tasks/statetest"
	"runnel/tasks/statetest/fake"
)

// longest is the longest time in which a task of that age was silent.
func longest(times tasks.Times, age time.Duration) (from, took time.Duration) {
	last := time.Duration(0)
	for _, s := range append(times[:len(times):len(times)], tasks.Sample{At: age}) {
		if s.At-last > took {
			from, took = last, s.At-last
		}
		last = s.At
	}
	return from, took
}

// When the output of a day came is known from some hundred numbers, and its silence to the minute; the same
// numbers are read again.
func TestTimesOfADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run.NewRunner(run.Options{MaxTTL: 48 * time.Hour})
		defer r.Close()
		run, err := r.Start(t.Context(),
			run.Spec{Handle: true, TTL: 48 * time.Hour,
				Work: func(ctx context.Context, running *run.Run) run.Done {
					for begin := time.Now(); time.Since(begin) < 24*time.Hour; time.Sleep(3 * time.Second) {
						if age := time.Since(begin); age < 10*time.Hour || age > 11*time.Hour {
							_ = running.Log().Append(ctx, partials.Chunk{Data: []byte("a line\n")})
						}
					}
					return run.Done{}
				}})
		if err != nil {
			t.Fatal(err)
		}
		run.Delivered()
		<-run.Ended()
		task := run.Task()
		const age = 24 * time.Hour
		from, took := longest(task.Times, age)
		if (from-10*time.Hour).Abs() > time.Minute || (took-time.Hour).Abs() > time.Minute {
			t.Errorf("silent for %v after %v", took, from)
		}
		if n := len(task.Times); n < 64 || n > 256 || task.Times[n-1].Bytes != task.Log.Size() {
			t.Errorf("%d samples, the last of %d bytes; the log has %d", n, task.Times[n-1].Bytes,
				task.Log.Size())
		}
		encoded, err := json.Marshal(task.Times)
		if err != nil || len(encoded) > 4<<10 {
			t.Errorf("%d bytes, %v", len(encoded), err)
		}
		var read tasks.Times
		if err := json.Unmarshal(encoded, &read); err != nil || len(read) != len(task.Times) ||
			read[len(read)-1].Bytes != task.Log.Size() {
			t.Errorf("%v: read again: %v", err, read)
		}
	})
}

// slowNotes is a state that takes its time to write a note, whatever its context says.
type slowNotes struct {
	fake.Alone
	began, resume chan struct{}
}

func (s *slowNotes) SetVariables(ctx context.Context, id string, patch []byte) ([]byte, error) {
	close(s.began)
	<-s.resume
	return s.Alone.SetVariables(ctx, id, patch)
}

// Close waits until what is being noted of a task is written: the state may be closed after it.
func TestCloseWaitsForASample(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		state := &slowNotes{fake.Memory(), make(chan struct{}), make(chan struct{})}
		r := run.NewRunner(run.Options{State: fake.State(state)})
		_, err := r.Start(t.Context(),
			run.Spec{Handle: true, Work: func(ctx context.Context, task *run.Run) run.Done {
				task.Report(tasks.Progress{Done: 1, Total: 2})
				<-ctx.Done()
				return run.Done{}
			}})
		if err != nil {
			t.Fatal(err)
		}
		<-state.began
		closed := make(chan struct{})
		go func() { r.Close(); close(closed) }()
		time.Sleep(time.Minute)
		select {
		case <-closed:
			t.Error("closed while a note was being written")
		default:
		}
		close(state.resume)
		<-closed
	})
}

// How far a task is, and when its output came, another process sees while it runs and after it, and nobody
// sees it among the variables.
func TestProgressAndTimesElsewhere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	here, there := run.NewRunner(run.Options{State: openStore(t, sqlite.Options{Dir: dir})}),
		run.NewRunner(run.Options{State: openStore(t, sqlite.Options{Dir: dir})})
	defer here.Close()
	defer there.Close()
	seen := make(chan struct{})
	run := statetest.Start(t, there, func(ctx context.Context, task *run.Run) run.Done {
		_ = task.Log().Append(ctx, partials.Chunk{Data: []byte("one\n")})
		task.Report(tasks.Progress{Done: 3, Total: 10, Message: "three"})
		<-seen
		_ = task.Log().Append(ctx, partials.Chunk{Data: []byte("two\n")})
		return run.Done{}
	})
	want := tasks.Progress{Done: 3, Total: 10, Message: "three"}
	statetest.Eventually(t, func() bool {
		seen, err := here.Head(t.Context(), run.ID())
		return err == nil && seen.Progress == want
	})
	close(seen)
	run.Delivered()
	<-run.Ended()
	stored, err := here.Head(t.Context(), run.ID())
	if err != nil || stored.Status != mcp.TaskCompleted {
		t.Fatal(stored.Status, err)
	}
	// The times are in milliseconds, and may be equal.
	if n := len(stored.Times); n < 2 || stored.Times[0].Bytes != 4 || stored.Times[n-1].Bytes != 8 ||
		stored.Times[n-1].At < stored.Times[0].At {
		t.Errorf("it came at %v", stored.Times)
	}
	if own := tasks.OwnVariables(stored.Variables); own != nil {
		t.Errorf("variables: %s", own)
	}
}
