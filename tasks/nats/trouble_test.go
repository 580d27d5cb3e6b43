package nats

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"runnel/internal/enginetest"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/engine"
	"runnel/tasks/run"
	"runnel/tasks/statetest"
)

// spaceOf is a state's space of the owner of the tests' tasks.
func spaceOf(t *testing.T, s *State) *space {
	t.Helper()
	sp, err := s.space(t.Context(), "local")
	if err != nil {
		t.Fatal(err)
	}
	return sp
}

func (s *State) space(ctx context.Context, owner string) (*space, error) {
	return queue{s.Space(owner)}.open(ctx)
}

// All leases have run out while the servers were away: a process that is back first waits until the others
// have renewed theirs.
func TestLeasesRanOut(t *testing.T) {
	t.Parallel()
	url := startServer(t, t.TempDir(), 0).ClientURL()
	var clock statetest.Clock
	here, there := newState(t, url), newState(t, url, at(&clock))
	task := statetest.Working("a")
	statetest.Put(t, here, task)
	sp, other := spaceOf(t, here), spaceOf(t, there)
	sp.unlease(t)
	if err := other.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := sp.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	later(t, other, &clock)
	statetest.Put(t, here, statetest.Ended(task, mcp.TaskCompleted, "done"))
	if got := statetest.Get(t, there, "a"); got.Status != mcp.TaskCompleted {
		t.Errorf("%s %s", got.Status, got.StatusMessage)
	}
}

// A stream that is full says so at once; it lets nobody's lease run out, and can be opened and made room in.
func TestFull(t *testing.T) {
	t.Parallel()
	url := startServer(t, t.TempDir(), 0).ClientURL()
	here := newState(t, url, func(o *Options) { o.MaxBytes = 1 << 20 })
	task := statetest.Working("a")
	statetest.Put(t, here, task, statetest.Working("b"))
	sp := spaceOf(t, here)
	for n := 64 << 10; n > 0; n /= 2 {
		for full := false; !full; {
			_, err := here.c.js.Publish(t.Context(), sp.subject("b", "log.head"), make([]byte, n))
			full = err != nil
		}
	}
	end := statetest.Ended(task, mcp.TaskCompleted, "done")
	// ErrBusy comes after a wait.
	if err := here.Open(tasks.DefaultOwner).Put(t.Context(), end); err == nil || errors.Is(err, tasks.ErrBusy) ||
		!strings.Contains(err.Error(), "full") {
		t.Errorf("an end: %v", err)
	}
	if err := sp.Renew(t.Context()); err != nil {
		t.Errorf("the lease: %v", err)
	}
	if err := newState(t, url).Open("local").Delete(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	statetest.Put(t, here, end)
}

// A server without room lets a new process open the state, list and delete, and a running task end as it did:
// its room in reserve is for ends alone.
func TestFullServer(t *testing.T) {
	t.Parallel()
	url := startServer(t, t.TempDir(), 0, func(o *server.Options) { o.JetStreamMaxStore = 24 << 20 }).
		ClientURL()
	here := newState(t, url)
	one, two := statetest.Working("one"), statetest.Working("two")
	statetest.Put(t, here, one, two, statetest.Working("filler"))
	sp := spaceOf(t, here)
	if err := sp.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	for n := 512 << 10; n > 0; n /= 2 {
		for full := false; !full; {
			_, err := here.c.js.Publish(t.Context(), sp.subject("filler", "log.head"), make([]byte, n))
			full = err != nil
		}
	}
	if err := here.Open(tasks.DefaultOwner).Put(t.Context(), statetest.Working("new")); !errors.Is(err, engine.ErrNoRoom) {
		t.Errorf("a new task: %v", err)
	}
	fresh := newState(t, url)
	for range 2 {
		if list, _, err := fresh.Open("local").List(t.Context(), tasks.OldestFirst, "", 10); err != nil || len(list) != 3 {
			t.Errorf("%+v, %v", list, err)
		}
	}
	for _, task := range []tasks.Task{one, two} {
		statetest.Put(t, here, statetest.Ended(task, mcp.TaskCompleted, "done"))
		if got := statetest.Get(t, fresh, task.ID); got.Status != mcp.TaskCompleted {
			t.Errorf("%s %s", got.Status, got.StatusMessage)
		}
	}
	if gone, _, err := fresh.Space("local").Forget(t.Context(), time.Now(), true); err != nil || len(gone) != 2 {
		t.Errorf("pruned %+v, %v", gone, err)
	}
	if err := fresh.Open("local").Delete(t.Context(), "filler"); err != nil {
		t.Fatal(err)
	}
	statetest.Put(t, here, statetest.Working("new"))
	if err := sp.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if list, err := sp.subjects(t.Context(), sp.name, sp.root+"reserve.*"); err != nil ||
		len(list) != reservePieces {
		t.Errorf("the reserve is not there again: %v, %v", list, err)
	}
}

// An owner whose share is full leaves the others theirs.
func TestShareOfOwner(t *testing.T) {
	t.Parallel()
	url := startServer(t, t.TempDir(), 0).ClientURL()
	state := newState(t, url, func(o *Options) { o.MaxBytes = 1 << 20 })
	statetest.Put(t, state, statetest.Working("a"))
	sp := spaceOf(t, state)
	for full := false; !full; {
		_, err := state.c.js.Publish(t.Context(), sp.subject("a", "log.head"), make([]byte, 64<<10))
		full = err != nil
	}
	for _, id := range []string{"b", "c"} {
		other := statetest.Working(id, "line\n")
		other.Owner = "other"
		statetest.Put(t, state, other, statetest.Ended(other, mcp.TaskCompleted, "done"))
	}
}

// The server comes back without what it had stored, as one does whose folder was temporary. What is lost ends,
// with that reason, and the same processes go on with new streams.
func TestStoreComesBackEmpty(t *testing.T) {
	t.Parallel()
	first := startServer(t, t.TempDir(), 0)
	url := first.ClientURL()
	front, worker := newState(t, url), newState(t, url)
	taken := offer(t, front, tasks.Offer{})
	take(t, worker, "far", 3)
	waits := offer(t, front, tasks.Offer{})
	local := statetest.StartDelivered(t, statetest.NewRunner(t, run.Options{State: front}),
		statetest.UntilDone)
	first.Shutdown()
	first.WaitForShutdown()
	startServer(t, t.TempDir(), portOf(t, url))
	for name, run := range map[string]*run.Run{"taken": taken, "waits": waits, "local": local} {
		<-run.Ended()
		if got := run.Task(); got.Status != mcp.TaskFailed ||
			!strings.Contains(got.StatusMessage, "no longer has the task") {
			t.Errorf("%s: %s %s", name, got.Status, got.StatusMessage)
		}
	}
	statetest.Eventually(t, func() bool { // the worker hears of it, too
		_, fenced, err := statetest.Shared(worker).Heed(t.Context())
		return err == nil && slices.Equal(fenced, []string{taken.ID()})
	})
	for range 2 {
		again := offer(t, front, tasks.Offer{})
		take(t, worker, "far", 3)
		if got := statetest.Get(t, front, again.ID()); got.Worker != "far" {
			t.Errorf("%+v", got)
		}
	}
}

// A stream that is deleted while it is used is made again: what was in it is not found, and new tasks are
// stored.
func TestRemoved(t *testing.T) {
	t.Parallel()
	url := startServer(t, t.TempDir(), 0).ClientURL()
	state := newState(t, url)
	for range 2 {
		task := statetest.Working("a", "line\n")
		statetest.Put(t, state, task)
		if err := state.c.js.DeleteStream(t.Context(), spaceOf(t, state).name); err != nil {
			t.Fatal(err)
		}
		if err := state.Open(tasks.DefaultOwner).Put(t.Context(), statetest.Ended(task, mcp.TaskCompleted, "done")); !errors.Is(err,
			tasks.ErrFenced) {
			t.Errorf("its end: %v", err)
		}
		if _, err := state.Open("local").Get(t.Context(), "a"); !errors.Is(err, tasks.ErrNotFound) {
			t.Errorf("read: %v", err)
		}
	}
}

// Messages that are sent without waiting between them are stored in their order, whatever is refused in
// between, and again where the stream was deleted.
func TestInOrder(t *testing.T) {
	t.Parallel()
	state := newState(t, startServer(t, t.TempDir(), 0).ClientURL())
	statetest.Put(t, state, statetest.Working("a")) // opens it
	sp := spaceOf(t, state)
	at := func(what string, o ...jetstream.PublishOpt) write {
		return write{nats.NewMsg(sp.subject("b", what)), o}
	}
	for range 2 {
		sequences, err := sp.publishInOrder(t.Context(), at("one"),
			at("two", jetstream.WithExpectLastSequencePerSubject(1000)), at("three"))
		if !errors.Is(err, tasks.ErrFenced) || sequences[1] != 0 || sequences[2] != sequences[0]+1 {
			t.Errorf("one is refused: %d, %v", sequences, err)
		}
	}
	if err := state.c.js.DeleteStream(t.Context(), sp.name); err != nil {
		t.Fatal(err)
	}
	sequences, err := sp.publishInOrder(t.Context(), at("one"), at("two"))
	if err != nil || sequences[0] == 0 || sequences[1] <= sequences[0] {
		t.Errorf("the stream is made again: %d, %v", sequences, err)
	}
}

// Numbers in a record that nobody has written fail its task, and cost no memory.
func TestPoisonedNumbers(t *testing.T) {
	t.Parallel()
	url := startServer(t, t.TempDir(), 0).ClientURL()
	state := newState(t, url)
	sp := spaceOf(t, state)
	if _, err := state.c.js.Publish(t.Context(), sp.subject("bad", "result.a"),
		[]byte(`{"result":{"content":[]}}`)); err != nil {
		t.Fatal(err)
	}
	for _, more := range []string{`"pieces":1000000000`, `"pieces":-1`, `"pieces":1,"attempt":"> <"`,
		`"pieces":1,"numbered":1000000000`} {
		data := fmt.Sprintf(`{"status":"completed","writer":"w","created":%d,"ttl":1000000000000,"attempt":"a",%s}`, time.Now().UnixNano(), more)
		if _, err := state.c.js.Publish(t.Context(), sp.subject("bad", "task"), []byte(data)); err != nil {
			t.Fatal(err)
		}
		if got, err := state.Open("local").Get(t.Context(), "bad"); err != nil || got.Status != mcp.TaskFailed {
			t.Errorf("%s: %+v, %v", more, got, err)
		}
	}
}

// A task that was refused, though something of it was stored, does not stay.
func TestRefused(t *testing.T) {
	t.Parallel()
	url := startServer(t, t.TempDir(), 0).ClientURL()
	state := newState(t, url)
	sp := spaceOf(t, state)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := state.Open(tasks.DefaultOwner).Put(over, statetest.Working("a")); err == nil {
		t.Fatal("it was stored")
	}
	// Its last tries have got there late.
	for _, subject := range []string{sp.subject("a", "made"), sp.marks("a", state.Keeper, false)} {
		if _, err := state.c.js.Publish(t.Context(), subject, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := sp.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left, err := sp.subjects(t.Context(), sp.name, sp.root+">"); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
}

// A server without JetStream is named, with what to do.
func TestNoJetStream(t *testing.T) {
	t.Parallel()
	url := startServer(t, t.TempDir(), 0, func(o *server.Options) { o.JetStream = false }).ClientURL()
	state := newState(t, url)
	for range 2 {
		if err := state.Open(tasks.DefaultOwner).Put(t.Context(), statetest.Working("a")); err == nil ||
			!strings.Contains(err.Error(), "start it with -js") {
			t.Errorf("%v", err)
		}
	}
}

func TestUnanswered(t *testing.T) {
	t.Parallel()
	enginetest.Unanswered(t, newState(t, startServer(t, t.TempDir(), 0).ClientURL()).State)
}

func TestHandleInTime(t *testing.T) {
	t.Parallel()
	url := startServer(t, t.TempDir(), 0).ClientURL()
	var clock statetest.Clock
	here, there := newState(t, url), newState(t, url, at(&clock))
	enginetest.HandleInTime(t, here.State, there.State, func(sp *engine.Space) {
		spaceOf(t, here).unlease(t)
		for range 2 {
			if err := sp.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			clock.Add(engine.RenewInterval)
		}
	})
}

// A process whose lease had run out finds what others have ended since, and nothing else; it looks again if
// it could not.
func TestLapsed(t *testing.T) {
	t.Parallel()
	url := startServer(t, t.TempDir(), 0).ClientURL()
	var clock, late statetest.Clock
	here, there := newState(t, url, at(&late)), newState(t, url, at(&clock))
	statetest.Put(t, here, statetest.Working("a"))
	sp, other := spaceOf(t, here), spaceOf(t, there)
	sp.Stop() // it renews nothing by itself
	sp.unlease(t)
	if err := other.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	later(t, other, &clock)
	statetest.Put(t, here, statetest.Working("b"))
	late.Add(engine.LeaseTTL)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := sp.Renew(over); err == nil {
		t.Fatal("renewed by a context that is over")
	}
	if err := sp.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, fenced, err := statetest.Shared(here).Heed(t.Context()); err != nil || !slices.Equal(fenced, []string{"a"}) {
		t.Errorf("%v, %v", fenced, err)
	}
}

// startWithoutGets runs a server that does not let its user ask the leader for a message. It answers
// replicas' requests.
func startWithoutGets(t *testing.T) (url string) {
	t.Helper()
	denied := &server.SubjectPermission{Deny: []string{"$JS.API.STREAM.MSG.GET.>"}}
	srv, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoLog: true,
		NoSigs: true,
		Users: []*server.User{{Username: "u", Password: "p",
			Permissions: &server.Permissions{Publish: denied}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	if !srv.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server is not ready")
	}
	return "nats://u:p@" + srv.Addr().String()
}

// A record that is refused, and cannot be read then, may be this process's own, whose acknowledgement was
// lost: nobody is fenced off by it.
func TestRefusedRecordCannotBeRead(t *testing.T) {
	t.Parallel()
	sp := spaceOf(t, newState(t, startWithoutGets(t)))
	r := &engine.Record{Task: tasks.Task{ID: "one", Owner: "local", TTL: time.Hour, CreatedAt: time.Now()}}
	if _, err := sp.putRecord(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second) // the server does not answer at all
	defer cancel()
	r.Revision, r.Stored.Tool = 0, "other"
	if _, err := sp.putRecord(ctx, r); !errors.Is(err, tasks.ErrBusy) {
		t.Errorf("%v", err)
	}
}

func TestHandedBack(t *testing.T) {
	t.Parallel()
	url := startServer(t, t.TempDir(), 0).ClientURL()
	open := func() enginetest.Queue { return newState(t, url) }
	enginetest.HandedBack(t, open)
	enginetest.HandedBackUnknown(t, open)
}

// A process ends also while its server is away, after it has tried in vain to reach it.
func TestCloseWhileTheServerIsAway(t *testing.T) {
	t.Parallel()
	server := startServer(t, t.TempDir(), 0)
	state := newState(t, server.ClientURL())
	spaceOf(t, state)
	tried := make(chan struct{}, 1)
	state.c.nc.Opts.ReconnectErrCB = func(*nats.Conn, error) {
		select {
		case tried <- struct{}{}:
		default:
		}
	}
	state.c.nc.IsConnected() // it locks: what reads the options comes later
	server.Shutdown()
	<-tried
	if err := state.Close(); err != nil {
		t.Error(err)
	}
}
