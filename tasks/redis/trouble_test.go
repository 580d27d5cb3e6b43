//go:build unix

package redis

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"runnel/internal/enginetest"
	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/engine"
	"runnel/tasks/statetest"
)

// A record that is not runnel's fails its own task alone.
func TestPoisoned(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	state, other := newState(t, s), newState(t, s)
	const key = "runnel:local:task:bad"
	statetest.Put(t, state, statetest.Working("good"), statetest.Working("bad", "line\n"))
	for _, record := range []string{
		"", "{", "\xff", `{"status":"unheard","ttl":1}`, `{"status":"completed","ttl":1000000000000}`, "[]",
		`{"status":"completed","ttl":1000000000000000,"outcome":1000000000}`, `{"status":"working","ttl":-1}`,
		strings.Repeat(" ", 2<<20),
	} {
		do(t, state, "HSET", key, "record", record)
		if got, err := other.Open("local").Get(t.Context(), "bad"); err == nil && got.Status != mcp.TaskFailed ||
			err != nil && !errors.Is(err, tasks.ErrNotFound) {
			t.Errorf("%.20q: %+v, %v", record, got, err)
		}
	}
	do(t, state, "HSET", key, "record",
		fmt.Sprintf(`{"status":"working","created":%d,"ttl":1000000000000}`, time.Now().UnixNano()))
	for _, field := range []string{"end", "variables"} {
		do(t, state, "HSET", key, field, "garbage")
		if got, err := other.Open("local").Get(t.Context(), "bad"); err != nil || got.Status != mcp.TaskFailed {
			t.Errorf("%s: %+v, %v", field, got, err)
		}
		do(t, state, "HSET", key, "end", "5")
	}
	do(t, state, "DEL", key)
	do(t, state, "SET", key, "no hash")
	if got, err := other.Open("local").Get(t.Context(), "bad"); err != nil || got.Status != mcp.TaskFailed {
		t.Errorf("no hash: %+v, %v", got, err)
	}
	if err := spaceOf(t, other).Sweep(t.Context()); err != nil {
		t.Errorf("sweep: %v", err)
	}
	if got := statetest.Get(t, state, "good"); got.Status != mcp.TaskWorking {
		t.Errorf("%+v", got)
	}
	if got := statetest.IDs(t, other, 10); len(got) != 2 {
		t.Errorf("listed: %v", got)
	}
}

// Damaged entries of the index of tasks are skipped and named in the log, and so is the loss of its counter.
func TestPoisonedIndex(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	var log bytes.Buffer
	state := newState(t, s, func(o *Options) { o.Log = zerolog.New(&log) })
	statetest.Put(t, state, statetest.Working("a"), statetest.Working("b"))
	for _, score := range []string{"1e300", "+inf", "1.5", "9007199254740991", "77"} {
		do(t, state, "ZADD", "runnel:local:tasks", score, "forged"+score)
		for _, n := range []int{1, 10} {
			if got := statetest.IDs(t, state, n); !slices.Equal(got, []string{"a", "b"}) {
				t.Errorf("with %s, pages of %d: %v", score, n, got)
			}
		}
		if !strings.Contains(log.String(), "forged"+score) {
			t.Errorf("%s is not named: %s", score, &log)
		}
		do(t, state, "ZREM", "runnel:local:tasks", "forged"+score)
	}
	do(t, state, "DEL", "runnel:local:last") // evicted, for example
	for _, n := range []int{1, 10} {
		if got := statetest.IDs(t, state, n); !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("without the counter, pages of %d: %v", n, got)
		}
	}
	statetest.Put(t, state, statetest.Working("c"))
	if got := statetest.IDs(t, state, 2); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("after the counter was lost: %v", got)
	}
}

// An error in a script says what to do, and names no script.
func TestScriptErrorsAreReadable(t *testing.T) {
	t.Parallel()
	state := newState(t, startServer(t))
	statetest.Put(t, state, statetest.Working("a"))
	do(t, state, "DEL", "runnel:local:tasks")
	do(t, state, "SET", "runnel:local:tasks", "no set")
	for _, id := range []string{"b", "c"} {
		err := state.Open(tasks.DefaultOwner).Put(t.Context(), statetest.Working(id))
		if err == nil || strings.Contains(err.Error(), "script") ||
			!strings.Contains(err.Error(), "delete the damaged one") {
			t.Errorf("%v", err)
		}
	}
}

// A damaged task of a process that is gone is ended once, whatever stands there.
func TestPoisonedOrphan(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	var clock statetest.Clock
	state, dead := newState(t, s, at(&clock)), newState(t, s)
	statetest.Put(t, dead, statetest.Working("a"), statetest.Working("b"))
	spaceOf(t, dead).Stop()
	do(t, state, "ZREM", "runnel:local:alive", dead.Keeper)
	do(t, state, "HSET", "runnel:local:task:a", "record", "garbage")
	do(t, state, "DEL", "runnel:local:task:b")
	do(t, state, "SET", "runnel:local:task:b", "no hash")
	sp := spaceOf(t, state)
	if err := sp.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	later(t, sp, &clock)
	if live := do(t, state, "HLEN", "runnel:local:live"); live != "0" {
		t.Errorf("%s marks are left", live)
	}
	if got := statetest.Get(t, state, "a"); got.Status != mcp.TaskFailed ||
		!strings.Contains(got.StatusMessage, "damaged") {
		t.Errorf("%s %s", got.Status, got.StatusMessage)
	}
}

// A damaged piece of output is passed over, and what stands after it is read.
func TestDamagedOutput(t *testing.T) {
	t.Parallel()
	state := newState(t, startServer(t))
	task := statetest.Working("a", "before\n")
	statetest.Put(t, state, task)
	stored := func(size int64) func() bool {
		return func() bool { return statetest.Get(t, state, "a").Log.Size() == size }
	}
	statetest.Eventually(t, stored(7))
	if err := task.Log.Append(t.Context(), partials.Chunk{Data: []byte("damaged\n")}); err != nil {
		t.Fatal(err)
	}
	statetest.Eventually(t, stored(15))
	if err := task.Log.Append(t.Context(), partials.Chunk{Data: []byte("after\n")}); err != nil {
		t.Fatal(err)
	}
	statetest.Eventually(t, stored(21))
	do(t, state, "COPY", "runnel:local:log:a", "old")
	do(t, state, "DEL", "runnel:local:log:a")
	do(t, state, "EVAL", `local all = redis.call('XRANGE', 'old', '-', '+')
		for i, entry in ipairs(all) do
			local data = entry[2][4]
			if i == 2 then data = 'garbage' end
			redis.call('XADD', KEYS[1], entry[1], 'm', entry[2][2], 'd', data)
		end`, "1", "runnel:local:log:a")
	log := statetest.Get(t, state, "a").Log
	if got := statetest.ReadAll(t, log); got != "before\nafter\n" {
		t.Errorf("%q", got)
	}
}

// A server whose memory is full says so at once, and takes ends all the same; what is there can be read and
// deleted, which makes room.
func TestFull(t *testing.T) {
	t.Parallel()
	state := newState(t, startServer(t))
	task := statetest.Working("c")
	statetest.Put(t, state, statetest.Working("a"), statetest.Working("b"), task)
	do(t, state, "CONFIG", "SET", "maxmemory", "1")
	// ErrBusy comes after a wait.
	if err := state.Open(tasks.DefaultOwner).Put(t.Context(), statetest.Working("d")); err == nil || errors.Is(err, tasks.ErrBusy) ||
		!strings.Contains(err.Error(), "full") {
		t.Errorf("a new task: %v", err)
	}
	statetest.Put(t, state, statetest.Ended(task, mcp.TaskCompleted, "done"))
	if got := statetest.Get(t, state, "c"); got.Status != mcp.TaskCompleted || got.Outcome.Result == nil {
		t.Errorf("%+v", got)
	}
	// Without a lease, its tasks would be ended as soon as there is room.
	if err := spaceOf(t, state).Renew(t.Context()); err != nil {
		t.Errorf("the lease: %v", err)
	}
	other := New(Options{Server: state.server.o.Server})
	defer other.Close()
	if got := statetest.IDs(t, other, 10); len(got) != 3 {
		t.Errorf("who comes now finds %v", got)
	}
	if err := statetest.Shared(other).Ask(t.Context(), "a"); err != nil {
		t.Errorf("to cancel: %v", err)
	}
	if asked, _, err := statetest.Shared(state).Heed(t.Context()); err != nil || !slices.Equal(asked, []string{"a"}) {
		t.Errorf("asked for %v, %v", asked, err)
	}
	if err := other.Open("local").Delete(t.Context(), "b"); err != nil {
		t.Errorf("to make room: %v", err)
	}
	do(t, state, "CONFIG", "SET", "maxmemory", "0")
	statetest.Put(t, state, statetest.Working("d"))
}

// A write that was stored without an answer is not stored twice: neither output nor an end.
func TestUnanswered(t *testing.T) {
	t.Parallel()
	state := newState(t, startServer(t))
	enginetest.Unanswered(t, state.State)
}

func TestHandleInTime(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	var clock statetest.Clock
	here, there := newState(t, s), newState(t, s, at(&clock))
	enginetest.HandleInTime(t, here.State, there.State, func(sp *engine.Space) {
		do(t, here, "ZREM", "runnel:local:alive", here.Keeper)
		for range 2 {
			if err := sp.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			clock.Add(engine.RenewInterval)
		}
	})
}

// A server that has stopped is waited for, then the error says that it does not answer. It goes on where it
// was.
func TestStopped(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	state := newState(t, s)
	statetest.Unresponsive(t, state, func() { s.signal(t, syscall.SIGSTOP) },
		func() { s.signal(t, syscall.SIGCONT) },
		func(ctx context.Context) error { return spaceOf(t, state).Sweep(ctx) })
}

// While a server has stopped, all who come wait for it together, not one after the other, and so do those
// that leave.
func TestStoppedForAll(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	state := newState(t, s)
	for _, owner := range []string{"a", "b", "c"} {
		if err := state.Space(owner).Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	s.signal(t, syscall.SIGSTOP)
	defer s.signal(t, syscall.SIGCONT)
	begun := time.Now()
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			if _, err := state.Open("new").Get(t.Context(), "x"); !errors.Is(err, tasks.ErrBusy) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if took := time.Since(begun); took > 5*writeTimeout/2 { // one after the other takes three times that
		t.Errorf("they came for %v", took)
	}
	begun = time.Now()
	_ = state.Close()
	if took := time.Since(begun); took > writeTimeout { // it takes twice leaveTimeout
		t.Errorf("they left for %v", took)
	}
}

// A process without a lease has time to renew it after the server was away once more.
func TestAwayTwice(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	var clock statetest.Clock
	here, there := newState(t, s), newState(t, s, at(&clock))
	statetest.Put(t, here, statetest.Working("a"))
	spaceOf(t, here).Stop() // it has not renewed it yet
	do(t, there, "ZREM", "runnel:local:alive", here.Keeper)
	other := spaceOf(t, there)
	if err := other.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	clock.Add(engine.RenewInterval)
	s.signal(t, syscall.SIGSTOP)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	err := other.Sweep(ctx)
	s.signal(t, syscall.SIGCONT)
	if !errors.Is(err, tasks.ErrBusy) {
		t.Fatal(err)
	}
	if err := other.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := statetest.Get(t, there, "a"); got.Status != mcp.TaskWorking {
		t.Errorf("%s %s", got.Status, got.StatusMessage)
	}
}

// A process that has watched a task leaves nothing at the server.
func TestWatchLeaves(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	here, there := newState(t, s), newState(t, s)
	task := statetest.Working("a")
	statetest.Put(t, here, task)
	theirs := statetest.Get(t, there, "a")
	watched := make(chan error)
	go func() { watched <- statetest.Shared(there).Watch(t.Context(), &theirs) }()
	channels := func() string { return do(t, here, "PUBSUB", "CHANNELS", "*:wake:*") }
	statetest.Eventually(t, func() bool { return channels() == "[runnel:local:wake:a]" })
	statetest.Put(t, here, statetest.Ended(task, mcp.TaskCompleted, "done"))
	if err := <-watched; err != nil {
		t.Fatal(err)
	}
	if left := channels(); left != "[]" {
		t.Errorf("left: %s", left)
	}
}

// When one watcher of a task stops, the others in the same process still hear of it.
func TestWatchersShare(t *testing.T) {
	t.Parallel()
	state := newState(t, startServer(t))
	sp := spaceOf(t, state)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	hear := func() engine.Hearing {
		h, err := sp.Hear(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	first, second := hear(), hear()
	defer func() { second.Close() }()
	for range 20 { // one comes as one goes
		left := first
		var all sync.WaitGroup
		all.Go(left.Close)
		first, second = second, hear()
		all.Wait()
		statetest.Eventually(t, func() bool {
			return do(t, state, "PUBLISH", "runnel:local:wake:a",
				"") == "1"
		})
		for _, h := range []engine.Hearing{first, second} {
			if _, err := h.Wait(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
	first.Close()
}

// A server that is not Redis is reported as such.
func TestOtherServer(t *testing.T) {
	t.Parallel()
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	state := New(Options{Server: other.Listener.Addr().String()})
	defer state.Close()
	if _, err := state.Open("local").Get(t.Context(), "a"); err == nil ||
		!strings.Contains(err.Error(), "name a Redis server") {
		t.Error(err)
	}
}

// Credentials are read for each connection, and stand in no error, no log and no report.
func TestCredentials(t *testing.T) {
	t.Parallel()
	s := startServer(t, "user alice on >s3cret ~runnel:* &runnel:* +@all", "user default off")
	file := filepath.Join(t.TempDir(), "creds")
	var log bytes.Buffer
	open := func(text string) (*State, error) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		state := newState(t, s, func(o *Options) { o.Credentials, o.Log = file, zerolog.New(&log) })
		return state, state.Open(tasks.DefaultOwner).Put(t.Context(), statetest.Working("a"))
	}
	for _, wrong := range []string{"", "alice wr0ng", "wr0ng", "alice wr0ng words"} {
		if _, err := open(wrong); err == nil || strings.Contains(err.Error(), "wr0ng") ||
			!strings.Contains(err.Error(), "USER PASSWORD") {
			t.Errorf("%q: %v", wrong, err)
		}
	}
	state, err := open("alice s3cret\n")
	if err != nil {
		t.Fatal(err)
	}
	report, err := state.Space("local").Check(t.Context())
	if said := report + log.String() + fmt.Sprint(do(t, state, "CLIENT", "LIST")); err != nil ||
		strings.Contains(said, "s3cret") || strings.Contains(said, "wr0ng") {
		t.Errorf("%s, %v", said, err)
	}
}
