package nats

import (
	"context"
	"runtime"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/engine"
	"runnel/tasks/statetest"
)

// A look at a task allocates little: a follower takes one for each piece of output.
func TestLooksAllocateLittle(t *testing.T) {
	url := startServer(t, t.TempDir(), 0).ClientURL()
	statetest.Put(t, newState(t, url), statetest.Working("a"))
	elsewhere := newState(t, url)
	statetest.Get(t, elsewhere, "a")
	const looks = 50
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range looks {
		statetest.Get(t, elsewhere, "a")
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / looks; each > 200<<10 { // the server's part included
		t.Errorf("%d bytes each", each)
	}
}

// The newest tasks are read without those before them.
func TestNewestFirst(t *testing.T) {
	t.Parallel()
	server := startServer(t, t.TempDir(), 0)
	state := newState(t, server.ClientURL())
	const many = 300
	for i := range many {
		statetest.Put(t, state, statetest.Ended(statetest.Working(strconv.Itoa(i)), mcp.TaskCompleted, "done"))
	}
	sent := func() int64 {
		stats, err := server.Varz(nil)
		if err != nil {
			t.Fatal(err)
		}
		return stats.OutMsgs
	}
	before := ""
	for left := many; left > many-10; left -= 5 {
		begun := sent()
		page, rest, err := state.Open("local").List(t.Context(), tasks.NewestFirst, before, 5)
		if err != nil || len(page) != 5 || page[0].ID != strconv.Itoa(left-1) || rest != page[4].ID {
			t.Fatalf("%d tasks, the rest begins at %q, %v", len(page), rest, err)
		}
		if n := sent() - begun; n > 150 { // some are those of leases and sweeps
			t.Errorf("a page of 5 of %d tasks took %d messages", many, n)
		}
		before = rest
	}
}

// A follower reads the numbers of segments that are new, not all that there are: a look costs the same
// however long a task has run.
func TestNewestNumbers(t *testing.T) {
	t.Parallel()
	state := newState(t, startServer(t, t.TempDir(), 0).ClientURL())
	sp := spaceOf(t, state)
	statetest.Put(t, state, statetest.Working("a"))
	const all = 100
	for n := 1; n <= all; n++ {
		m := &nats.Msg{Subject: sp.subject("a", "ends"), Header: nats.Header{firstHeader: {strconv.Itoa(n)}},
			Data: partials.EncodeEnds(int64(5*(n-1)), []int64{int64(5 * n)})}
		if _, err := state.c.js.PublishMsg(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	for _, known := range []int{0, 1, 50, all - 1, all} {
		r := &engine.Record{End: 5 * all}
		read := 0
		counted := func(ctx context.Context, sequence uint64, subject string, n,
			limit int) ([]*jetstream.RawStreamMsg, error) {
			messages, err := sp.from(ctx, sequence, subject, n, limit)
			read += len(messages)
			return messages, err
		}
		numbers := r.Numbers(known, int64(5*known))
		err := sp.readNumbers(t.Context(), "a", counted, &numbers)
		ends, _ := numbers.Ends()
		if err != nil || len(ends) != all-known ||
			known < all && (ends[0] != int64(5*(known+1)) || ends[len(ends)-1] != 5*all) {
			t.Errorf("after %d: %v, %v", known, ends, err)
		}
		if read > all-known+1 {
			t.Errorf("after %d: %d messages are read", known, read)
		}
	}
}

// Tasks that a replica lacks are in the list: the leader is asked what follows, and for records.
func TestListOfAReplicaThatLags(t *testing.T) {
	t.Parallel()
	state := newState(t, startServer(t, t.TempDir(), 0).ClientURL())
	sp := spaceOf(t, state)
	for _, id := range []string{"a", "b", "c"} {
		statetest.Put(t, state, statetest.Working(id))
	}
	replica(t, state, sp, func(m *nats.Msg) {
		_ = m.RespondMsg(&nats.Msg{Header: nats.Header{"Status": {"404"}, "Description": {"Message Not Found"}}})
	})
	for range 2 {
		for _, n := range []int{2, 100} {
			if ids := statetest.IDs(t, state, n); !slices.Equal(ids, []string{"a", "b", "c"}) {
				t.Errorf("listed by %d: %q", n, ids)
			}
		}
	}
}

// A follower that lags goes on where its last read ended, with one request: it does not search a stream that
// many tasks share.
func TestFollowerGoesOn(t *testing.T) {
	t.Parallel()
	state := newState(t, startServer(t, t.TempDir(), 0).ClientURL())
	sp := spaceOf(t, state)
	task, line := statetest.Working("a"), []byte("line\n")
	statetest.Put(t, state, task)
	for range 10 {
		if err := task.Log.Append(t.Context(), partials.Chunk{Data: line}); err != nil {
			t.Fatal(err)
		}
		statetest.Eventually(t, func() bool {
			return statetest.Get(t, state, "a").
				Log.Size() == task.Log.Size()
		})
	}
	load := func(pos, end int64) []partials.Extent {
		t.Helper()
		list, err := sp.Output("a", func() int64 { return end }).Load(t.Context(), pos, 1<<20)
		if err != nil || len(list) == 0 || list[0].Start != pos {
			t.Fatalf("%+v, %v", list, err)
		}
		return list
	}
	load(0, 20) // what was stored since the follower read the record is read again with the next look
	var asked atomic.Int64
	for _, gets := range []string{"$JS.API.DIRECT.GET.>", "$JS.API.STREAM.MSG.GET.>"} {
		if _, err := state.c.nc.Subscribe(gets, func(*nats.Msg) { asked.Add(1) }); err != nil {
			t.Fatal(err)
		}
	}
	if list := load(20, 50); len(list) != 6 {
		t.Errorf("%+v", list)
	}
	if err := state.c.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("%d requests", n)
	}
}
