package nats

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/rs/zerolog"

	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/engine"
	"runnel/tasks/statetest"
)

// startServer runs a NATS server in this process, on a port of its own (0 = a free one).
func startServer(t testing.TB, dir string, port int, change ...func(*server.Options)) *server.Server {
	t.Helper()
	if port == 0 {
		port = server.RANDOM_PORT
	}
	o := &server.Options{Host: "127.0.0.1", Port: port, JetStream: true, StoreDir: dir, NoLog: true,
		NoSigs: true}
	for _, c := range change {
		c(o)
	}
	s, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server is not ready")
	}
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	return s
}

func newState(t testing.TB, url string, change ...func(*Options)) *State {
	o := Options{Servers: url, Options: engine.Options{Log: zerolog.New(zerolog.NewTestWriter(t))}}
	for _, c := range change {
		c(&o)
	}
	s := New(o)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestState(t *testing.T) {
	t.Parallel()
	url := startServer(t, t.TempDir(), 0).ClientURL()
	statetest.Run(t, func(t *testing.T) tasks.State {
		return newState(t, url, func(o *Options) { o.Prefix = prefixOf(t) })
	})
}

// prefixOf is a prefix of a test's own.
func prefixOf(t *testing.T) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune("/ #", r) {
			return '_'
		}
		return r
	}, t.Name())
}

func TestShared(t *testing.T) {
	t.Parallel()
	url := startServer(t, t.TempDir(), 0).ClientURL()
	statetest.RunShared(t, func(t *testing.T) (here, there tasks.State) {
		prefix := func(o *Options) { o.Prefix = prefixOf(t) }
		return newState(t, url, prefix), newState(t, url, prefix)
	})
}

// The tasks of a process that has vanished fail with what they had written, and it is refused when it comes
// back.
func TestVanished(t *testing.T) {
	t.Parallel()
	url := startServer(t, t.TempDir(), 0).ClientURL()
	var clock statetest.Clock
	told := 0
	dead := newState(t, url)
	other := newState(t, url, at(&clock), func(o *Options) { o.Recovered = func(*tasks.Task) { told++ } })
	task := statetest.Working("a", "line\n")
	statetest.Put(t, dead, task)
	statetest.Eventually(t, func() bool { return statetest.Get(t, other, "a").Log.Size() == 5 })
	sp, err := dead.space(t.Context(), "local")
	if err != nil {
		t.Fatal(err)
	}
	sp.Stop() // its lease is not renewed any more
	sp.unlease(t)
	theirs, err := other.space(t.Context(), "local")
	if err != nil {
		t.Fatal(err)
	}
	if err := theirs.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := statetest.Get(t, other, "a"); got.Status != mcp.TaskWorking {
		t.Errorf("at the first look: %s %s", got.Status, got.StatusMessage)
	}
	later(t, theirs, &clock)
	got := statetest.Get(t, other, "a")
	if told != 1 {
		t.Errorf("told %d times", told)
	}
	if got.Status != mcp.TaskFailed || !strings.Contains(got.StatusMessage, "gone") ||
		statetest.ReadAll(t, got.Log) != "line\n" {
		t.Errorf("%+v", got)
	}
	if err := dead.Open(tasks.DefaultOwner).Put(t.Context(), statetest.Ended(task, mcp.TaskCompleted, "done")); !errors.Is(err,
		tasks.ErrFenced) {
		t.Errorf("the dead came back: %v", err)
	}
	if got := statetest.Get(t, other, "a"); got.Status != mcp.TaskFailed {
		t.Errorf("the dead changed it: %+v", got)
	}
}

// at lets a state take the time from a clock.
func at(clock *statetest.Clock) func(*Options) { return func(o *Options) { o.Now = clock.Now } }

// later lets a space look again for processes that are gone, when those without a lease had time to renew it.
func later(t *testing.T, sp *space, clock *statetest.Clock) {
	t.Helper()
	clock.Add(engine.RenewInterval)
	if err := sp.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func (sp *space) unlease(t *testing.T) {
	t.Helper()
	if err := sp.leases.Purge(t.Context(), purge(sp.lease(sp.Keeper))); err != nil {
		t.Fatal(err)
	}
	if !sp.sweeps.Load() {
		return
	}
	if err := sp.leases.Purge(t.Context(), purge(sp.sweeper())); err != nil {
		t.Fatal(err)
	}
}

// While the server is away output waits, and nothing is lost or stored twice when it comes back.
func TestServerComesBack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := startServer(t, dir, 0)
	url := first.ClientURL()
	statetest.ServerComesBack(t, newState(t, url), func() { first.Shutdown(); first.WaitForShutdown() },
		func() { startServer(t, dir, portOf(t, url)) }, func() tasks.State { return newState(t, url) })
}

// A long log keeps its head and its tail.
func TestLongLog(t *testing.T) {
	t.Parallel()
	statetest.LongLog(t, newState(t, startServer(t, t.TempDir(), 0).ClientURL()))
}

func TestLimits(t *testing.T) {
	t.Parallel()
	url := startServer(t, t.TempDir(), 0).ClientURL()
	statetest.RunLimits(t, func(t *testing.T, limits tasks.Limits) (here, there tasks.State) {
		limit := func(o *Options) { o.Prefix, o.Limits = prefixOf(t), limits }
		return newState(t, url, limit), newState(t, url, limit)
	})
}

// A record that is not runnel's fails its own task alone.
func TestPoisoned(t *testing.T) {
	t.Parallel()
	url := startServer(t, t.TempDir(), 0).ClientURL()
	state := newState(t, url)
	statetest.Put(t, state, statetest.Working("good"), statetest.Working("bad"))
	sp, err := state.space(t.Context(), "local")
	if err != nil {
		t.Fatal(err)
	}
	for _, data := range []string{"", "{", "\xff", `{"status":"unheard","ttl":1}`,
		`{"status":"completed","ttl":1000000000000}`, "[]"} {
		if _, err := state.c.js.Publish(t.Context(), sp.subject("bad", "task"), []byte(data)); err != nil {
			t.Fatal(err)
		}
		if _, err := state.c.js.Publish(t.Context(), sp.subject("bad", "log.head"),
			[]byte("garbage")); err != nil {
			t.Fatal(err)
		}
		got, err := newState(t, url).Open("local").Get(t.Context(), "bad")
		if err == nil && got.Status != mcp.TaskFailed || err != nil && !errors.Is(err, tasks.ErrNotFound) {
			t.Errorf("%q: %+v, %v", data, got, err)
		}
	}
	if got := statetest.Get(t, state, "good"); got.Status != mcp.TaskWorking {
		t.Errorf("%+v", got)
	}
}

// People name a task by the beginning of its id: of those that can be seen.
func TestFind(t *testing.T) {
	t.Parallel()
	url := startServer(t, t.TempDir(), 0).ClientURL()
	statetest.Find(t, newState(t, url), newState(t, url, func(o *Options) { o.Calls = true }))
}

func TestForget(t *testing.T) {
	statetest.Forget(t, newState(t, startServer(t, t.TempDir(), 0).ClientURL()))
}

func TestParse(t *testing.T) {
	o, err := Parse("nats://a:1,b:2?prefix=p&replicas=3&maxBytes=10GiB", os.Getenv)
	if err != nil || o.Servers != "nats://a:1,b:2" || o.Prefix != "p" || o.Replicas != 3 ||
		o.MaxBytes != 10<<30 {
		t.Errorf("%+v, %v", o, err)
	}
	for _, bad := range []string{"nats://", "nats://user:secret@host", "nats://host?prefx=p",
		"nats://host?replicas=9", "nats://host?maxBytes=ten", "nats://host?maxBytes=1KiB",
		"nats://host?prefix=a.b", "nats://host/path"} {
		if _, err := Parse(bad, os.Getenv); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
