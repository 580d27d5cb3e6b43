package nats

import (
	"bytes"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"runnel/partials"
	"runnel/tasks/statetest"
)

// A copy of a message that comes late changes nothing: a server that was stopped when it had just received it
// passes it on later.
func TestCopiesThatComeLate(t *testing.T) {
	t.Parallel()
	state := newState(t, startServer(t, t.TempDir(), 0).ClientURL())
	sp := spaceOf(t, state)
	sent, err := state.c.nc.SubscribeSync(sp.root + ">")
	if err != nil {
		t.Fatal(err)
	}
	first := statetest.Working("a", "line\n")
	first.Variables = []byte(`{"n":1}`)
	statetest.Put(t, state, first, statetest.Working("b"))
	if _, err := state.Open("local").SetVariables(t.Context(), "a", []byte(`{"n":2}`)); err != nil {
		t.Fatal(err)
	}
	if err := state.c.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	n, _, err := sent.Pending()
	if err != nil || n < 6 {
		t.Fatalf("%d messages were sent, %v", n, err)
	}
	var all []*nats.Msg
	for range n {
		m, err := sent.NextMsg(ackTimeout)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
	for _, m := range slices.Backward(all) {
		for range 2 {
			_, err := state.c.nc.RequestMsg(&nats.Msg{Subject: m.Subject, Header: m.Header, Data: m.Data},
				ackTimeout)
			if err != nil {
				t.Fatalf("%s: %v", m.Subject, err)
			}
		}
	}
	if ids := statetest.IDs(t, state, 10); !slices.Equal(ids, []string{"a", "b"}) {
		t.Errorf("%q are listed", ids)
	}
	if got := statetest.Get(t, state, "a"); string(got.Variables) != `{"n":2}` {
		t.Errorf("the variables are %s", got.Variables)
	}
}

// replica answers direct gets of a stream in the place of the server.
func replica(t *testing.T, state *State, sp *space, answer func(m *nats.Msg)) {
	t.Helper()
	config := sp.stream.CachedInfo().Config
	config.AllowDirect = false
	if _, err := state.c.js.UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	sub, err := state.c.nc.Subscribe("$JS.API.DIRECT.GET."+sp.name, answer)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sub.Unsubscribe() })
}

// answered sends an answer of several messages, of which the first so many are lost.
func answered(m *nats.Msg, all []*jetstream.RawStreamMsg, lost int) {
	last := uint64(0)
	for i, one := range all {
		says := nats.Header{}
		for name, values := range one.Header {
			says[name] = values
		}
		says.Set(jetstream.SubjectHeader, one.Subject)
		says.Set(jetstream.SequenceHeader, strconv.FormatUint(one.Sequence, 10))
		says.Set(jetstream.TimeStampHeaer, one.Time.Format("2006-01-02T15:04:05.999999999Z07:00"))
		says.Set(lastHeader, strconv.FormatUint(last, 10))
		if last = one.Sequence; i >= lost {
			_ = m.RespondMsg(&nats.Msg{Header: says, Data: one.Data})
		}
	}
	_ = m.RespondMsg(&nats.Msg{Header: nats.Header{"Status": {"204"}, "Description": {"EOB"},
		lastHeader: {strconv.FormatUint(last, 10)}}})
}

// The beginning of an answer is lost with a connection: what is asked for is asked again.
func TestAnswersWithoutTheirBeginning(t *testing.T) {
	t.Parallel()
	state := newState(t, startServer(t, t.TempDir(), 0).ClientURL())
	sp := spaceOf(t, state)
	var made []*jetstream.RawStreamMsg
	for _, id := range []string{"a", "b", "c"} {
		statetest.Put(t, state, statetest.Working(id))
		m, err := sp.newest(t.Context(), sp.subject(id, "made"))
		if err != nil {
			t.Fatal(err)
		}
		made = append(made, m)
	}
	var asked atomic.Int64
	replica(t, state, sp, func(m *nats.Msg) {
		lost := 0
		if bytes.Contains(m.Data, []byte(`"batch":10`)) && asked.Add(1) <= 2 { // other requests are those of sweeps
			lost = int(asked.Load()) + 1
		}
		answered(m, made, lost)
	})
	for range 2 {
		list, err := sp.from(t.Context(), 1, sp.subject("*", "made"), 10, maxMessage)
		if err != nil || len(list) != 3 || list[0].Sequence != made[0].Sequence {
			t.Errorf("%d messages, %v", len(list), err)
		}
	}
	if n := asked.Load(); n < 4 {
		t.Errorf("%d requests", n)
	}
}

// Output that a replica lacks, though it has what follows, is read from the leader.
func TestOutputThatAReplicaLacks(t *testing.T) {
	t.Parallel()
	state := newState(t, startServer(t, t.TempDir(), 0).ClientURL())
	sp := spaceOf(t, state)
	task := statetest.Working("a")
	statetest.Put(t, state, task)
	for range 3 {
		if err := task.Log.Append(t.Context(), partials.Chunk{Data: []byte("line\n")}); err != nil {
			t.Fatal(err)
		}
		statetest.Eventually(t, func() bool {
			last, err := sp.newest(t.Context(), sp.subject("a", "log.*"))
			return err == nil && endOf(last) == task.Log.Size()
		})
	}
	last, err := sp.newest(t.Context(), sp.subject("a", "log.*"))
	if err != nil {
		t.Fatal(err)
	}
	replica(t, state, sp, func(m *nats.Msg) { answered(m, []*jetstream.RawStreamMsg{last}, 0) })
	for range 2 {
		list, err := sp.Output("a", task.Log.Size).Load(t.Context(), 0, 1<<20)
		if err != nil || len(list) != 3 || list[0].Start != 0 {
			t.Errorf("%+v, %v", list, err)
		}
	}
	r, err := sp.Read(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	sp.places.clear()
	sp.places.note(sp.subject("a", "log.*"), place{0, 1})
	if err := sp.Extent(t.Context(), r, 0); err != nil || len(r.Ahead) != 3 {
		t.Errorf("%+v, %v", r.Ahead, err)
	}
}
