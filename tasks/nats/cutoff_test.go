//go:build unix

package nats

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"runnel/internal/natstest"
	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/engine"
	"runnel/tasks/statetest"
)

// A process whose server is cut off from it, while the connection stays, goes on at another one before its
// lease has run out: also if what it writes does not get into the connection any more.
func TestServerIsCutOff(t *testing.T) {
	t.Parallel()
	for name, flood := range map[string]int{"silent": 0, "full": 32} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := natstest.Start(t, 3, os.Environ())
			state := newState(t, cluster.URL(), func(o *Options) { o.Replicas = 3 })
			sp := spaceOf(t, state)
			cluster.Whole()
			cluster.Pause(cluster.Node(state.c.nc.ConnectedUrl()))
			begun := time.Now()
			var flooding sync.WaitGroup
			flooding.Go(func() {
				for range flood {
					// It is refused while another server is looked for.
					_ = state.c.nc.Publish("nobody", make([]byte, 900<<10))
				}
			})
			statetest.Eventually(t, func() bool {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				return sp.Lease(ctx) == nil
			})
			if took := time.Since(begun); took > engine.LeaseTTL {
				t.Errorf("the lease was renewed after %v", took)
			}
			flooding.Wait()
		})
	}
}

// A process that is cut off from one server is answered by another: reading works, and opening waits or is
// told to try again.
func TestReadsWhileCutOff(t *testing.T) {
	t.Parallel()
	cluster := natstest.Start(t, 3, os.Environ())
	state := newState(t, cluster.URL(), func(o *Options) { o.Replicas = 3 })
	task := statetest.Working("a", "line\n")
	statetest.Put(t, state, statetest.Ended(task, mcp.TaskCompleted, "done"))
	cluster.Whole()
	cluster.Pause(cluster.Node(state.c.nc.ConnectedUrl()))
	patient := statetest.Patient(state)
	var all sync.WaitGroup
	all.Go(func() {
		if list, _, err := patient.Open("local").List(t.Context(), tasks.OldestFirst, "", 10); err != nil || len(list) != 1 {
			t.Errorf("%v, %v", list, err)
		}
	})
	all.Go(func() {
		if _, _, err := patient.Open("other").List(t.Context(), tasks.OldestFirst, "", 10); err != nil {
			t.Errorf("another owner: %v", err)
		}
	})
	all.Wait()
}

// A replica that is cut off goes on getting its share of the direct gets, which are sent again then. So who
// looks for its place in some output asks the leader alone, and sends one direct get.
func TestReplicaIsCutOff(t *testing.T) {
	t.Parallel()
	const reads, seeks = 15, 8 // a search among the messages takes that many requests
	cluster := natstest.Start(t, 3, os.Environ())
	state := newState(t, cluster.URL(), func(o *Options) { o.Replicas = 3 })
	sp := spaceOf(t, state)
	task, line := statetest.Working("a"), []byte("line\n")
	statetest.Put(t, state, task)
	begun := time.Now()
	// A replica answers as soon as it has been found current: it looks each 2 s.
	for n := 0; n < 1<<(seeks-1) || time.Since(begun) < 5*time.Second; n++ {
		if err := task.Log.Append(t.Context(), partials.Chunk{Data: line}); err != nil {
			t.Fatal(err)
		}
		statetest.Eventually(t, func() bool {
			return statetest.Get(t, state, "a").
				Log.Size() == task.Log.Size()
		})
	}
	size := task.Log.Size()
	asked, err := state.c.nc.SubscribeSync("$JS.API.DIRECT.GET." + sp.name)
	if err != nil {
		t.Fatal(err)
	}
	round := func() (sent []int) {
		for i := range reads {
			pos := int64(i * len(line))
			sp.places.clear()
			if list, err := sp.Output("a", func() int64 { return size }).
				Load(t.Context(), pos, 1); err != nil || len(list) == 0 || list[0].Start != pos {
				t.Logf("%+v, %v", list, err)
				return nil
			}
			_ = state.c.nc.Flush()
			n, _, _ := asked.Pending()
			for range n {
				_, _ = asked.NextMsg(time.Second)
			}
			sent = append(sent, n)
		}
		return sent
	}
	for try := 1; ; try++ {
		cluster.Whole()
		leader := cluster.Leader(sp.name)
		used := []int{leader, cluster.Node(state.c.nc.ConnectedUrl())}
		paused := slices.IndexFunc([]int{0, 1, 2},
			func(node int) bool { return !slices.Contains(used, node) })
		cluster.Pause(paused)
		sent := round()
		cluster.Resume(paused)
		// No one could be asked in an election, and all tries of one read may go to the replica that is cut off.
		if sent == nil && (try < 5 || cluster.Leader(sp.name) != leader) {
			continue
		}
		slices.Sort(sent)
		if len(sent) == 0 || sent[0] == 0 || sent[reads/2] >= seeks/2 {
			t.Errorf("each of them sent %v direct gets", sent)
		}
		return
	}
}

// A direct get that no replica answers is soon sent again, and then less and less often.
func TestAskAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var at []time.Duration
		begun := time.Now()
		_, err := askAgain(t.Context(), replicaTimeout, func(ctx context.Context) (any, error) {
			at = append(at, time.Since(begun))
			<-ctx.Done()
			return nil, unreachable(ctx.Err())
		})
		want := []time.Duration{0, 350 * time.Millisecond, 950 * time.Millisecond, 2050 * time.Millisecond,
			4150 * time.Millisecond, 8250 * time.Millisecond}
		if !slices.Equal(at, want) || !errors.Is(err, tasks.ErrBusy) {
			t.Errorf("asked after %v, then %v", at, err)
		}
	})
}
