package statetest

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/run"
)

// owner owns the tasks of this package.
const owner = "local"

// Working returns a task that works, with some output.
func Working(id string, output ...string) tasks.Task {
	t := tasks.Task{ID: id, Owner: owner, Status: mcp.TaskWorking, CreatedAt: time.Now(), TTL: time.Hour,
		Log: partials.NewLog(nil)}
	t.Segments = partials.NewSegments(t.Log)
	for _, line := range output {
		if err := t.Log.Append(context.Background(), partials.Chunk{Data: []byte(line)}); err != nil {
			panic(err)
		}
	}
	return t
}

// Ended returns a task of Working as it is when it has ended, with a text as its result.
func Ended(t tasks.Task, status mcp.TaskStatus, text string) tasks.Task {
	t.Log.Close()
	t.Status, t.StatusMessage = status, "message of "+t.ID
	t.Outcome = &tasks.Outcome{Result: mcp.Result(text)}
	t.Segments.Finish(partials.Ending{Rest: []mcp.ContentBlock{mcp.Text(text)}})
	return t
}

// Put stores tasks as TryPut does, or fails the test.
func Put(t testing.TB, s tasks.State, list ...tasks.Task) {
	t.Helper()
	for _, task := range list {
		if err := TryPut(s, task); err != nil {
			t.Fatal(err)
		}
	}
}

// TryPut stores a task. One that has ended is put as working first, unless it is there.
func TryPut(s tasks.State, task tasks.Task) error {
	store := s.Open(task.Owner)
	if _, err := store.Head(context.Background(), task.ID); err != nil && task.Status.Terminal() {
		working := task
		working.Status, working.Outcome = mcp.TaskWorking, nil
		if err := store.Put(context.Background(), working); err != nil {
			return err
		}
	}
	return store.Put(context.Background(), task)
}

// Shared returns the store of the tasks of Working, which other processes find.
func Shared(s tasks.State) tasks.Shared { return s.Open(owner).(tasks.Shared) }

// Queue returns the store of the tasks of Working, which can wait for workers.
func Queue(s tasks.Queues) tasks.Queue { return s.Open(owner).(tasks.Queue) }

// Hide stores a new task without a handle.
func Hide(s tasks.State, task tasks.Task) error {
	task.Hidden = true
	return s.Open(task.Owner).Put(context.Background(), task)
}

// Get returns a task, or fails the test.
func Get(t testing.TB, s tasks.State, id string) tasks.Task {
	t.Helper()
	task, err := s.Open(owner).Get(context.Background(), id)
	if err != nil {
		t.Fatalf("%s: %v", id, err)
	}
	return task
}

// IDs returns the ids of all tasks, listed in pages of n.
func IDs(t testing.TB, s tasks.State, n int) []string {
	t.Helper()
	var all []string
	for cursor := ""; ; {
		page, next, err := s.Open(owner).List(context.Background(), tasks.OldestFirst, cursor, n)
		if err != nil {
			t.Fatal(err)
		}
		for _, task := range page {
			all = append(all, task.ID)
		}
		if next == "" {
			return all
		}
		if len(page) != n {
			t.Fatalf("a page that is not the last has %d tasks, want %d", len(page), n)
		}
		cursor = next
	}
}

// Page returns the segments after number last.
func Page(t testing.TB, s *partials.Segments, last int64, limit int) partials.Page {
	t.Helper()
	page, err := s.After(last, limit)
	if err != nil {
		t.Fatal(err)
	}
	return page
}

// ReadAll returns all of a log that can be read.
func ReadAll(t testing.TB, l *partials.Log) string {
	t.Helper()
	var b strings.Builder
	for pos := int64(0); pos < l.Size(); {
		batch, next, err := readAt(l, pos, 64<<10)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range batch.Chunks() {
			b.Write(c.Data)
		}
		pos = next
	}
	return b.String()
}

// busyTime is how long servers may be busy with elections, and machines with other tests.
const busyTime = time.Minute

// again calls try until the state is not busy.
func again(ctx context.Context, try func() error) error {
	for deadline := time.Now().Add(busyTime); ; {
		err := try()
		if !errors.Is(err, tasks.ErrBusy) || ctx.Err() != nil || time.Now().After(deadline) {
			return err
		}
	}
}

// readAt reads a log, which may be that of a Patient.
func readAt(l *partials.Log, pos int64, limit int) (batch partials.Batch, next int64, err error) {
	err = again(context.Background(),
		func() (err error) { batch, next, err = l.ReadAt(context.Background(), pos, limit); return err })
	return batch, next, err
}

// Eventually waits for something that another process or goroutine does.
func Eventually(t testing.TB, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it has not happened")
		}
	}
}

// NewRunner returns a runner that is closed at the end of the test.
func NewRunner(t testing.TB, o run.Options) *run.Runner {
	o.Log = zerolog.Nop()
	r := run.NewRunner(o)
	t.Cleanup(r.Close)
	return r
}

// Start runs work as a task with a handle and delivers nothing.
func Start(t testing.TB, r *run.Runner, work run.Work) *run.Run {
	t.Helper()
	run, err := r.Start(t.Context(), run.Spec{Tool: "test", Handle: true, Work: work})
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// StartDelivered runs work as a task with a handle, whose output nobody is sent.
func StartDelivered(t testing.TB, r *run.Runner, work run.Work) *run.Run {
	t.Helper()
	run := Start(t, r, work)
	run.Delivered()
	return run
}

// UntilDone is work that ends when its context does.
func UntilDone(ctx context.Context, _ *run.Run) run.Done {
	<-ctx.Done()
	return run.Done{Err: context.Cause(ctx)}
}

// Clock is a clock for a state that a test can put forward.
type Clock struct{ ahead atomic.Int64 }

// Now returns the time.
func (c *Clock) Now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

// Add puts the clock forward.
func (c *Clock) Add(d time.Duration) { c.ahead.Add(int64(d)) }
