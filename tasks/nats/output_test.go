package nats

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/engine"
	"runnel/tasks/run"
	"runnel/tasks/statetest"
)

// A damaged piece of output is passed over, and what stands after it is read.
func TestDamagedOutput(t *testing.T) {
	t.Parallel()
	url := startServer(t, t.TempDir(), 0).ClientURL()
	state := newState(t, url)
	task := statetest.Working("a")
	statetest.Put(t, state, task)
	sp := spaceOf(t, state)
	write := func(text string, size int64) {
		if err := task.Log.Append(t.Context(), partials.Chunk{Data: []byte(text)}); err != nil {
			t.Fatal(err)
		}
		statetest.Eventually(t, func() bool {
			messages, err := sp.lastOf(t.Context(), sp.name, sp.subject("a", "log.*"))
			return err == nil && len(messages) == 1 && endOf(messages[0]) == size
		})
	}
	write("before\n", 7)
	for range loadMessages + 10 {
		if _, err := state.c.js.Publish(t.Context(), sp.subject("a", "log.head"),
			[]byte("garbage")); err != nil {
			t.Fatal(err)
		}
	}
	write("after\n", 13)
	log := statetest.Get(t, newState(t, url), "a").Log
	if got := statetest.ReadAll(t, log); got != "before\nafter\n" {
		t.Errorf("%q", got)
	}
	if batch, _, err := log.ReadAt(t.Context(), 9, 100); err != nil || batch.Start > 9 || batch.End != 13 {
		t.Errorf("from %d to %d, %v", batch.Start, batch.End, err)
	}
}

// Garbage after the last piece of output hides nothing that stands before it, neither from readers nor when
// the task is ended for its keeper.
func TestDamagedEnd(t *testing.T) {
	t.Parallel()
	url := startServer(t, t.TempDir(), 0).ClientURL()
	state := newState(t, url)
	task := statetest.Working("a", "one\n")
	statetest.Put(t, state, task)
	sp := spaceOf(t, state)
	statetest.Eventually(t, func() bool { return statetest.Get(t, state, "a").Log.Size() == 4 })
	for range 3 {
		if _, err := state.c.js.Publish(t.Context(), sp.subject("a", "log.head"),
			[]byte("garbage")); err != nil {
			t.Fatal(err)
		}
	}
	if got := statetest.ReadAll(t, statetest.Get(t, newState(t, url), "a").Log); got != "one\n" {
		t.Errorf("it reads %q", got)
	}
	r := &engine.Record{}
	r.ID = "a"
	if err := sp.Measure(t.Context(), r); err != nil || r.End != 4 {
		t.Errorf("it ends at %d, %v", r.End, err)
	}
}

// Output that no server will ever take fails its task, whose end is stored all the same.
func TestRefusedOutput(t *testing.T) {
	t.Parallel()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT,
		MaxPayload: 32 << 10, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server is not ready")
	}
	state := newState(t, s.ClientURL())
	r := statetest.NewRunner(t, run.Options{State: state, Owner: "local"})
	run := statetest.StartDelivered(t, r, func(ctx context.Context, task *run.Run) run.Done {
		if err := task.Log().Append(ctx,
			partials.Chunk{Data: []byte(strings.Repeat("a", 50_000) + "\n")}); err != nil {
			return run.Done{Err: err}
		}
		<-ctx.Done()
		return run.Done{Err: context.Cause(ctx)}
	})
	<-run.Ended()
	var got tasks.Task
	statetest.Eventually(t, func() bool {
		got = statetest.Get(t, state, run.ID())
		return got.Status.Terminal()
	})
	if got.Status != mcp.TaskFailed || !strings.Contains(got.StatusMessage, "max_payload") {
		t.Errorf("%s %s", got.Status, got.StatusMessage)
	}
}

// A message that a replica does not have is asked of the leader, who answers in the same way: it is neither
// damaged nor missing.
func TestReplicaLags(t *testing.T) {
	t.Parallel()
	state := newState(t, startServer(t, t.TempDir(), 0).ClientURL())
	sp := spaceOf(t, state)
	for i := range 5 {
		for _, what := range []string{"log.head", "ends"} {
			m := nats.NewMsg(sp.subject("a", what))
			m.Header.Set(startHeader, strconv.Itoa(i))
			m.Data = []byte{byte('0' + i)}
			if _, err := state.c.js.PublishMsg(t.Context(), m); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		sequence uint64
		n, limit int
		want     string
	}{{0, 9, 1 << 20, "01234"}, {3, 2, 1 << 20, "12"}, {4, 9, 2, "23"}, {9, 9, 1, "4"}, {11, 9, 1, ""}} {
		for name, from := range map[string]fetch{"a replica": sp.from, "the leader": sp.fromLeader} {
			list, err := from(t.Context(), c.sequence, sp.subject("a", "log.*"), c.n, c.limit)
			got := ""
			for _, m := range list {
				got += string(m.Data)
				if m.Header.Get(startHeader) != string(m.Data) || m.Subject != sp.subject("a", "log.head") {
					t.Errorf("%s: %+v", name, m)
				}
			}
			if err != nil || got != c.want && (c.limit > 9 || !strings.HasPrefix(c.want, got)) {
				t.Errorf("%s, %+v: %q, %v", name, c, got, err)
			}
		}
	}
	err := sp.caught(t.Context(), func(fetch) (bool, error) { return false, nil })
	if err != nil {
		t.Errorf("what even the leader does not have: %v", err)
	}
}

// A message that no replica has found is not gone before the leader has said so.
func TestLeaderIsAskedLast(t *testing.T) {
	t.Parallel()
	sp := spaceOf(t, newState(t, startWithoutGets(t)))
	ctx, cancel := context.WithTimeout(t.Context(), time.Second) // the leader does not answer at all
	defer cancel()
	err := sp.caught(ctx, func(from fetch) (bool, error) {
		list, err := from(ctx, 1, sp.subject("a", "log.*"), 9, 1<<20)
		return len(list) > 0, err
	})
	if !errors.Is(err, tasks.ErrBusy) {
		t.Errorf("%v", err)
	}
}

// A follower of a task finds its newest extent at once, however much stands in the stream.
func TestNewestStretch(t *testing.T) {
	t.Parallel()
	state := newState(t, startServer(t, t.TempDir(), 0).ClientURL())
	sp := spaceOf(t, state)
	task, line := statetest.Working("a"), []byte("line\n")
	statetest.Put(t, state, task)
	for range 20 {
		if err := task.Log.Append(t.Context(), partials.Chunk{Data: line}); err != nil {
			t.Fatal(err)
		}
		statetest.Eventually(t, func() bool {
			return statetest.Get(t, state, "a").
				Log.Size() == task.Log.Size()
		})
	}
	size := task.Log.Size()
	var asked atomic.Int64
	for _, gets := range []string{"$JS.API.DIRECT.GET.>", "$JS.API.STREAM.MSG.GET.>"} {
		if _, err := state.c.nc.Subscribe(gets, func(*nats.Msg) { asked.Add(1) }); err != nil {
			t.Fatal(err)
		}
	}
	list, err := sp.Output("a", func() int64 { return size }).Load(t.Context(), size-int64(len(line)), 1)
	if err != nil || len(list) != 1 || list[0].Start != size-int64(len(line)) {
		t.Errorf("%+v, %v", list, err)
	}
	if err := state.c.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	if n := asked.Load(); n > 2 {
		t.Errorf("%d requests: want at most one for where it is, and one for it", n)
	}
}

// A server forgets after a while what it has stored. What is sent again then, and so stored twice, is read
// once.
func TestStoredTwice(t *testing.T) {
	t.Parallel()
	url := startServer(t, t.TempDir(), 0).ClientURL()
	state := newState(t, url)
	task := statetest.Working("a")
	task.Merge = true
	statetest.Put(t, state, task)
	sp := spaceOf(t, state)
	for _, line := range []string{"one\n", "two\n"} {
		if err := task.Log.Append(t.Context(), partials.Chunk{Data: []byte(line)}); err != nil {
			t.Fatal(err)
		}
		if line == "two\n" {
			break
		}
		statetest.Eventually(t, func() bool {
			m, err := sp.newest(t.Context(), sp.subject("a", "ends"))
			return err == nil && m != nil
		})
		stored, err := sp.lastOf(t.Context(), sp.name, sp.subject("a", "log.*"), sp.subject("a", "ends"))
		if err != nil || len(stored) != 2 {
			t.Fatal(stored, err)
		}
		for _, m := range stored {
			again := &nats.Msg{Subject: m.Subject, Header: nats.Header{}, Data: m.Data}
			for _, name := range []string{startHeader, marksHeader, firstHeader} {
				again.Header[name] = m.Header[name]
			}
			if _, err := state.c.js.PublishMsg(t.Context(), again); err != nil {
				t.Fatal(err)
			}
		}
	}
	statetest.Put(t, state, statetest.Ended(task, mcp.TaskCompleted, "done"))
	got := statetest.Get(t, newState(t, url), "a")
	if text := statetest.ReadAll(t, got.Log); got.Status != mcp.TaskCompleted || text != "one\ntwo\n" {
		t.Errorf("%s %s, %q", got.Status, got.StatusMessage, text)
	}
}
