//go:build unix

package nats

import (
	"context"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"runnel/internal/natstest"
	"runnel/partials"
	"runnel/rpc/mcp"
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
					_ = state.c.nc.Publish("nobody", make([]byte, 900<<10)) // it is refused while another server is looked for
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
		if list, _, err := patient.List(t.Context(), "local", "", 10); err != nil || len(list) != 1 {
			t.Errorf("%v, %v", list, err)
		}
	})
	all.Go(func() {
		if _, _, err := patient.List(t.Context(), "other", "", 10); err != nil {
			t.Errorf("another owner: %v", err)
		}
	})
	all.Wait()
}

// A replica that is cut off goes on getting its share of what is read: that is asked again soon, and who has
// fallen behind with some output finds its place at once.
func TestReplicaIsCutOff(t *testing.T) {
	t.Parallel()
	cluster := natstest.Start(t, 3, os.Environ())
	state := newState(t, cluster.URL(), func(o *Options) { o.Replicas = 3 })
	sp := spaceOf(t, state)
	task, line := statetest.Working("a"), []byte("line\n")
	statetest.Put(t, state, task)
	for begun := time.Now(); time.Since(begun) < 5*time.Second; { // a replica answers as soon as it has been found current: it looks each 2 s
		if err := task.Log.Append(t.Context(), partials.Chunk{Data: line}); err != nil {
			t.Fatal(err)
		}
		statetest.Eventually(t, func() bool { return statetest.Get(t, state, "a").Log.Size() == task.Log.Size() })
	}
	cluster.Whole()
	used := []int{cluster.Leader(sp.name), cluster.Node(state.c.nc.ConnectedUrl())}
	for node := range 3 {
		if !slices.Contains(used, node) {
			cluster.Pause(node)
			break
		}
	}
	size := task.Log.Size() // of more than 15 lines
	var took []time.Duration
	for i := range 15 {
		begun, pos := time.Now(), int64(i*len(line))
		if list, err := sp.Output("a", func() int64 { return size }).Load(t.Context(), pos, 1); err != nil || len(list) == 0 || list[0].Start != pos {
			t.Errorf("%+v, %v", list, err)
		}
		took = append(took, time.Since(begun))
	}
	slices.Sort(took)
	if median := took[len(took)/2]; median > ackTimeout/2 {
		t.Errorf("half of them took %v and more: %v", median, took)
	}
}
