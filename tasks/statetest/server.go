package statetest

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/run"
)

// These are tests that all states in a server share. Each state starts, stops and inspects its own kind of
// server.

// ServerComesBack shows that output waits while the server is down, and that nothing is lost or stored twice
// when it comes back. open returns another state of the same server.
func ServerComesBack(t *testing.T, s tasks.State, stop, begin func(), open func() tasks.State) {
	t.Helper()
	away, back := make(chan struct{}), make(chan struct{})
	run := StartDelivered(t, NewRunner(t, run.Options{State: s, Owner: owner}), func(ctx context.Context,
		task *run.Run) run.Done {
		for i := range 100 {
			if i == 30 {
				close(away)
			}
			if i == 60 {
				<-back
			}
			if err := task.Log().Append(ctx, partials.Chunk{Data: []byte("0123456789\n")}); err != nil {
				return run.Done{Err: err}
			}
		}
		return run.Done{Result: mcp.Result("done")}
	})
	<-away
	stop()
	close(back)
	begin()
	<-run.Ended()
	got := Get(t, open(), run.ID())
	if got.Status != mcp.TaskCompleted || ReadAll(t, got.Log) != strings.Repeat("0123456789\n", 100) {
		t.Errorf("%+v, %d bytes", got, got.Log.Size())
	}
}

// LongLog writes a log of four times its limit: head and tail are kept. It returns the task's id and how many
// bytes are left.
func LongLog(t *testing.T, s tasks.State) (id string, kept int) {
	t.Helper()
	run := StartDelivered(t, NewRunner(t, run.Options{State: s, Owner: owner}), func(ctx context.Context,
		task *run.Run) run.Done {
		task.Log().SetLimit(1 << 20)
		for i := range 40_000 {
			if err := task.Log().Append(ctx,
				partials.Chunk{Data: []byte(strings.Repeat(string(rune('a'+i%26)), 99) + "\n")}); err != nil {
				return run.Done{Err: err}
			}
		}
		return run.Done{Result: mcp.Result("done")}
	})
	<-run.Ended()
	got := Get(t, s, run.ID())
	kept = len(ReadAll(t, got.Log))
	if kept > 5<<18 || kept < 1<<19 || got.Log.Size() != 4_000_000 {
		t.Errorf("%d of %d bytes are kept", kept, got.Log.Size())
	}
	return run.ID(), kept
}

// finder is a store that finds tasks by the beginnings of their ids.
type finder interface {
	Find(ctx context.Context, prefix string, most int) ([]string, error)
}

// Find shows that tasks are found by the beginnings of their ids, unless they have expired, and hidden ones
// only where calls are shown too.
func Find(t *testing.T, s, calls tasks.State) {
	t.Helper()
	old := Ended(Working("ab2"), mcp.TaskCompleted, "done")
	old.CreatedAt = time.Now().Add(-old.TTL)
	Put(t, s, Working("ab3"), Working("ab1"), Working("b"), old)
	if err := Hide(s, Working("ab4")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		state  tasks.State
		prefix string
		most   int
		want   string
	}{
		{s, "ab", 5, "ab1 ab3"}, {s, "ab", 1, "ab1"}, {s, "b", 5, "b"}, {s, "*", 5, ""},
		{calls, "ab", 5, "ab1 ab3 ab4"},
	} {
		if ids, err := c.state.Open(owner).(finder).Find(t.Context(), c.prefix, c.most); err != nil ||
			strings.Join(ids, " ") != c.want {
			t.Errorf("%s: %v, %v", c.prefix, ids, err)
		}
	}
}

// forgetter is a store that can be pruned.
type forgetter interface {
	Forget(ctx context.Context, before time.Time, force bool) (gone []tasks.Task, kept int, err error)
}

// Forget shows that ended tasks are pruned if their results were fetched, and the others only by force. One
// that a task has begun stays as long as that goes on: steps read the output of earlier ones, perhaps days
// later. Afterwards it counts as fetched if the result of that task was, or if that was deleted.
func Forget(t *testing.T, s tasks.State) {
	t.Helper()
	pruned(t, s)
	for _, id := range []string{"a", "b", "c"} {
		Put(t, s, Ended(Working(id, "line\n"), mcp.TaskCompleted, "done"))
	}
	Put(t, s, Working("d"))
	begun := Working("e", "line\n")
	begun.Variables = json.RawMessage(`{"` + tasks.AboveNote + `":"d"}`)
	Put(t, s, Ended(begun, mcp.TaskCompleted, "done"))
	for _, id := range []string{"b", "e"} {
		if err := s.Open(owner).MarkFetched(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	later := time.Now().Add(time.Hour)
	if gone, kept, err := s.Open(owner).(forgetter).Forget(t.Context(), later, false); err != nil ||
		len(gone) != 1 || gone[0].ID != "b" || kept != 2 {
		t.Errorf("%v, %d kept, %v", gone, kept, err)
	}
	if gone, kept, err := s.Open(owner).(forgetter).Forget(t.Context(), later, true); err != nil ||
		len(gone) != 2 || kept != 0 {
		t.Errorf("forced: %v, %d kept, %v", gone, kept, err)
	}
	if got := IDs(t, s, 10); !slices.Equal(got, []string{"d", "e"}) {
		t.Errorf("left: %v", got)
	}
	for _, pair := range []string{"fd", "gf", "hb"} {
		begun := Working(pair[:1], "line\n")
		begun.Variables = json.RawMessage(`{"` + tasks.AboveNote + `":"` + pair[1:] + `"}`)
		Put(t, s, Ended(begun, mcp.TaskCompleted, "done"))
	}
	Put(t, s, Ended(Working("d"), mcp.TaskCompleted, "done"))
	if gone, kept, err := s.Open(owner).(forgetter).Forget(t.Context(), later, false); err != nil ||
		len(gone) != 2 || kept != 3 {
		t.Errorf("after the end of what needs them: %v, %d kept, %v", gone, kept, err)
	}
	if err := s.Open(owner).MarkFetched(t.Context(), "d"); err != nil {
		t.Fatal(err)
	}
	if gone, kept, err := s.Open(owner).(forgetter).Forget(t.Context(), later, false); err != nil ||
		len(gone) != 3 || kept != 0 {
		t.Errorf("after its result was fetched: %v, %d kept, %v", gone, kept, err)
	}
}

// Unresponsive shows that a task is refused while the server is stopped, and the next one is taken when it
// resumes. A sweep deletes what may be stored of the refused one.
func Unresponsive(t *testing.T, s tasks.State, pause, resume func(), sweep func(context.Context) error) {
	t.Helper()
	Put(t, s, Working("a"))
	pause()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	err := s.Open(owner).Put(ctx, Working("b"))
	resume()
	if !errors.Is(err, tasks.ErrBusy) || !strings.Contains(err.Error(), "has not answered") {
		t.Errorf("%v", err)
	}
	Put(t, s, Working("c"))
	if err := sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := IDs(t, s, 10); !slices.Equal(got, []string{"a", "c"}) {
		t.Errorf("%v", got)
	}
}

// Patient returns a state that tries again what another one refuses with tasks.ErrBusy: for a suite whose
// servers are killed while it runs.
func Patient(q tasks.Queues) tasks.Queues { return patient{q} }

type patient struct{ tasks.Queues }

func (p patient) Open(owner string) tasks.Store {
	return patientQueue{p.Queues.Open(owner).(tasks.Queue)}
}

func (p patient) Next(ctx context.Context, owners, classes []string) (o *tasks.Offered, err error) {
	err = again(ctx, func() (err error) { o, err = p.Queues.Next(ctx, owners, classes); return err })
	return o, err
}

func (p patient) Owners(ctx context.Context) (list []string, err error) {
	err = again(ctx, func() (err error) { list, err = p.Queues.Owners(ctx); return err })
	return list, err
}

type patientQueue struct{ tasks.Queue }

func (p patientQueue) Put(ctx context.Context, t tasks.Task) error {
	return again(ctx, func() error { return p.Queue.Put(ctx, t) })
}

func (p patientQueue) Get(ctx context.Context, id string) (t tasks.Task, err error) {
	err = again(ctx, func() (err error) { t, err = p.Queue.Get(ctx, id); return err })
	return t, err
}

func (p patientQueue) Head(ctx context.Context, id string) (t tasks.Task, err error) {
	err = again(ctx, func() (err error) { t, err = p.Queue.Head(ctx, id); return err })
	return t, err
}

func (p patientQueue) List(ctx context.Context, d tasks.Direction, from string, n int) (page []tasks.Task, next string, err error) {
	err = again(ctx, func() (err error) { page, next, err = p.Queue.List(ctx, d, from, n); return err })
	return page, next, err
}

func (p patientQueue) Delete(ctx context.Context, id string) error {
	return again(ctx, func() error { return p.Queue.Delete(ctx, id) })
}

func (p patientQueue) SetVariables(ctx context.Context, id string, patch []byte) (all []byte, err error) {
	err = again(ctx, func() (err error) { all, err = p.Queue.SetVariables(ctx, id, patch); return err })
	return all, err
}

func (p patientQueue) MarkFetched(ctx context.Context, id string) error {
	return again(ctx, func() error { return p.Queue.MarkFetched(ctx, id) })
}

func (p patientQueue) Ask(ctx context.Context, id string) error {
	return again(ctx, func() error { return p.Queue.Ask(ctx, id) })
}

func (p patientQueue) Take(ctx context.Context, t tasks.Task, work []byte) (taken tasks.Task, err error) {
	err = again(ctx, func() (err error) { taken, err = p.Queue.Take(ctx, t, work); return err })
	return taken, err
}

func (p patientQueue) Left(ctx context.Context) (left []tasks.Task, err error) {
	err = again(ctx, func() (err error) { left, err = p.Queue.Left(ctx); return err })
	return left, err
}

func (p patientQueue) Watch(ctx context.Context, t *tasks.Task) error {
	return again(ctx, func() error { return p.Queue.Watch(ctx, t) })
}

func (p patientQueue) Taken(ctx context.Context, id string) (is bool, err error) {
	err = again(ctx, func() (err error) { is, err = p.Queue.Taken(ctx, id); return err })
	return is, err
}

func (p patientQueue) Offer(ctx context.Context, id string, o tasks.Offer) error {
	return again(ctx, func() error { return p.Queue.Offer(ctx, id, o) })
}

func (p patientQueue) PutOffered(ctx context.Context, t tasks.Task, o tasks.Offer) error {
	return again(ctx, func() error { return p.Queue.PutOffered(ctx, t, o) })
}

func (p patientQueue) Announce(ctx context.Context, w *tasks.Worker) error {
	return again(ctx, func() error { return p.Queue.Announce(ctx, w) })
}

func (p patientQueue) Fleet(ctx context.Context) (workers []tasks.Worker, waiting map[string]tasks.Waiting, err error) {
	err = again(ctx, func() (err error) { workers, waiting, err = p.Queue.Fleet(ctx); return err })
	return workers, waiting, err
}

func (p patientQueue) Order(ctx context.Context, o tasks.Order) error {
	return again(ctx, func() error { return p.Queue.Order(ctx, o) })
}

func (p patientQueue) Withdraw(ctx context.Context, o tasks.Order) error {
	return again(ctx, func() error { return p.Queue.Withdraw(ctx, o) })
}

func (p patientQueue) Orders(ctx context.Context) (list []tasks.Order, err error) {
	err = again(ctx, func() (err error) { list, err = p.Queue.Orders(ctx); return err })
	return list, err
}

func (p patientQueue) Stored(ctx context.Context) (stored tasks.Storage, err error) {
	err = again(ctx, func() (err error) { stored, err = p.Queue.Stored(ctx); return err })
	return stored, err
}
