package redis

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/rueidis"
	"github.com/rs/zerolog"

	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/engine"
	"runnel/tasks/statetest"
)

func newState(t testing.TB, s *server, change ...func(*Options)) *State {
	t.Helper()
	o := Options{Server: s.address(), Options: engine.Options{Log: zerolog.New(zerolog.NewTestWriter(t))}}
	for _, c := range change {
		c(&o)
	}
	state := New(o)
	t.Cleanup(func() { _ = state.Close() })
	return state
}

// prefixOf is a prefix of a test's own.
func prefixOf(t *testing.T) string {
	return strings.Map(func(r rune) rune {
		if engine.IsToken(string(r)) {
			return r
		}
		return '_'
	}, t.Name())
}

func TestState(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	statetest.Run(t, func(t *testing.T) tasks.State {
		return newState(t, s, func(o *Options) { o.Prefix = prefixOf(t) })
	})
}

func TestShared(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	statetest.RunShared(t, func(t *testing.T) (here, there tasks.State) {
		prefix := func(o *Options) { o.Prefix = prefixOf(t) }
		return newState(t, s, prefix), newState(t, s, prefix)
	})
}

// spaceOf is a state's space of the owner of the tests' tasks.
func spaceOf(t testing.TB, s *State) *space {
	t.Helper()
	return spaceOfOwner(t, s, "local")
}

// do runs a command on a state's server.
func do(t testing.TB, s *State, words ...string) string {
	t.Helper()
	c := spaceOf(t, s).server.client
	answer := c.Do(t.Context(), c.B().Arbitrary(words...).Build())
	if err := answer.Error(); err != nil && !rueidis.IsRedisNil(err) {
		t.Fatal(err)
	}
	said, _ := answer.ToAny()
	return fmt.Sprint(said)
}

// The tasks of a process that has vanished fail with what they had written, and it is refused when it comes
// back.
func TestVanished(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	var clock statetest.Clock
	dead, other := newState(t, s), newState(t, s, at(&clock))
	task := statetest.Working("a", "line\n")
	statetest.Put(t, dead, task)
	statetest.Eventually(t, func() bool { return statetest.Get(t, other, "a").Log.Size() == 5 })
	if err := statetest.Hide(dead, statetest.Working("hidden")); err != nil {
		t.Fatal(err)
	}
	spaceOf(t, dead).Stop() // its lease is not renewed any more
	do(t, other, "ZREM", "runnel:local:alive", dead.Keeper)
	theirs := spaceOf(t, other)
	if err := theirs.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := statetest.Get(t, other, "a"); got.Status != mcp.TaskWorking {
		t.Errorf("at the first look: %s %s", got.Status, got.StatusMessage)
	}
	later(t, theirs, &clock)
	got := statetest.Get(t, other, "a")
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
	if left := do(t, other, "HLEN", "runnel:local:live") + do(t, other, "HLEN", "runnel:local:hidden") +
		do(t, other, "EXISTS", "runnel:local:task:hidden"); left != "000" {
		t.Errorf("marks are left: %s", left)
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

// A process whose lease had run out finds what others have ended since, and nothing else.
func TestLapsed(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	var clock, late statetest.Clock
	here, there := newState(t, s, at(&late)), newState(t, s, at(&clock))
	statetest.Put(t, here, statetest.Working("a"))
	sp, other := spaceOf(t, here), spaceOf(t, there)
	sp.Stop() // it renews nothing by itself
	do(t, there, "ZREM", "runnel:local:alive", here.Keeper)
	if err := other.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	later(t, other, &clock)
	statetest.Put(t, here, statetest.Working("b"))
	late.Add(engine.LeaseTTL)
	if err := sp.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, fenced, err := statetest.Shared(here).Heed(t.Context()); err != nil || !slices.Equal(fenced, []string{"a"}) {
		t.Errorf("%v, %v", fenced, err)
	}
}

// A process that has renewed its lease between the look and the end keeps its tasks.
func TestLeaseCameBack(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	here, there := newState(t, s), newState(t, s)
	task := statetest.Working("a")
	statetest.Put(t, here, task)
	sp := spaceOf(t, there)
	r, err := sp.Read(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if err := sp.End(t.Context(), r, []byte("{}")); !errors.Is(err, tasks.ErrFenced) {
		t.Errorf("ended by another one: %v", err)
	}
	statetest.Put(t, here, statetest.Ended(task, mcp.TaskCompleted, "done"))
	if got := statetest.Get(t, there, "a"); got.Status != mcp.TaskCompleted {
		t.Errorf("%s %s", got.Status, got.StatusMessage)
	}
}

// While the server is away output waits, and nothing is lost or stored twice when it comes back.
func TestServerComesBack(t *testing.T) {
	t.Parallel()
	s := startServer(t, "appendfsync always")
	statetest.ServerComesBack(t, newState(t, s), func() { s.stop(t) }, func() { s.start(t) },
		func() tasks.State { return newState(t, s) })
}

// A server that comes back without what it had stored is not taken for one that has it, and new tasks are
// stored there.
func TestServerForgets(t *testing.T) {
	t.Parallel()
	s := startServer(t, "appendonly no")
	state := newState(t, s)
	task := statetest.Working("a", "line\n")
	statetest.Put(t, state, task)
	statetest.Eventually(t, func() bool { return statetest.Get(t, state, "a").Log.Size() == 5 })
	do(t, state, "HSET", "runnel:local:task:a", "end", "0") // as a replica that lagged has it
	if err := task.Log.Append(t.Context(), partials.Chunk{Data: []byte("more\n")}); err != nil {
		t.Fatal(err)
	}
	statetest.Eventually(t, func() bool { return task.Log.Failed() != nil })
	if err := task.Log.Failed(); !strings.Contains(err.Error(), "has lost output") {
		t.Error(err)
	}
	if err := state.Open(tasks.DefaultOwner).Put(t.Context(), statetest.Ended(task, mcp.TaskCompleted, "done")); !errors.Is(err,
		partials.ErrLost) {
		t.Errorf("completed: %v", err)
	}
	s.stop(t)
	s.start(t)
	statetest.Put(t, state, statetest.Working("b"), statetest.Working("c"))
	if got := statetest.IDs(t, newState(t, s), 10); len(got) != 2 {
		t.Errorf("after a restart without data: %v", got)
	}
}

// A long log keeps its head and its tail, and lets the server have its memory back.
func TestLongLog(t *testing.T) {
	t.Parallel()
	state := newState(t, startServer(t))
	id, _ := statetest.LongLog(t, state)
	if used, err := strconv.Atoi(do(t, state, "MEMORY", "USAGE", "runnel:local:log:"+id, "SAMPLES",
		"0")); err != nil || used > 2<<20 {
		t.Errorf("the log takes %d bytes of memory, %v", used, err)
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	statetest.RunLimits(t, func(t *testing.T, limits tasks.Limits) (here, there tasks.State) {
		limit := func(o *Options) { o.Prefix, o.Limits = prefixOf(t), limits }
		return newState(t, s, limit), newState(t, s, limit)
	})
}

// People name a task by the beginning of its id: of those that can be seen.
func TestFind(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	statetest.Find(t, newState(t, s), newState(t, s, func(o *Options) { o.Calls = true }))
}

// Tasks whose results were fetched are forgotten, the rest only by force.
func TestForget(t *testing.T) {
	t.Parallel()
	statetest.Forget(t, newState(t, startServer(t)))
}

// An expired task is forgotten: a sweep takes it out of the lists, the server removes the rest.
func TestExpires(t *testing.T) {
	t.Parallel()
	state := newState(t, startServer(t))
	task := statetest.Working("a", "line\n")
	statetest.Put(t, state, statetest.Ended(task, mcp.TaskCompleted, "done"))
	for _, key := range []string{"task:a", "log:a", "result:a"} {
		if ttl, err := strconv.Atoi(do(t, state, "PTTL", "runnel:local:"+key)); err != nil ||
			ttl < 59*60_000 || ttl > 61*60_000 {
			t.Errorf("%s lives for %d ms, %v", key, ttl, err)
		}
	}
	do(t, state, "ZADD", "runnel:local:expires", "1", "a")
	if err := spaceOf(t, state).Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if keys := do(t, state, "KEYS", "*:a"); keys != "[]" {
		t.Errorf("left: %s", keys)
	}
	if places := do(t, state, "ZCARD", "runnel:local:tasks"); places != "0" {
		t.Errorf("%s places", places)
	}
}

func TestParse(t *testing.T) {
	file := filepath.Join(t.TempDir(), "creds")
	o, err := Parse("rediss://host:1234/2?prefix=p&ca=c&creds="+file, os.Getenv)
	if err != nil || o.Server != "host:1234" || o.Prefix != "p" || o.DB != 2 || !o.TLS ||
		o.Credentials != file || o.RootCA != "c" {
		t.Errorf("%+v, %v", o, err)
	}
	if o, err := Parse("redis://[::1]", os.Getenv); err != nil || o.Server != "[::1]:6379" {
		t.Errorf("%+v, %v", o, err)
	}
	for _, bad := range []string{
		"redis://", "redis://user:secret@host", "redis://:secret@host:1", "redis://host?prefx=p",
		"redis://host?prefix=a.b", "redis://host/path", "redis://a,b",
		"redis://host?ca=file", "redis://host?password=secret", "redis://user:secret@host:port",
		"other://host",
	} {
		if _, err := Parse(bad, os.Getenv); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", bad, err)
		}
	}
	for text, want := range map[string]string{"alice s3cret\n": "alice s3cret", "s3cret": "default s3cret",
		"": "", "a s3cret c": ""} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		user, password, err := o.credentials()
		if (err == nil) != (want != "") || err == nil && user+" "+password != want ||
			err != nil && strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: %s %s, %v", text, user, password, err)
		}
	}
}
