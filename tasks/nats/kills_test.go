//go:build unix

package nats

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"runnel/internal/natstest"
	"runnel/tasks"
	"runnel/tasks/statetest"
)

// The contract of a state holds while the nodes of a cluster are killed and cut off, one after the other:
// make fleet goes on for an hour.
func TestStateWhileNodesDie(t *testing.T) {
	length, err := time.ParseDuration(os.Getenv("RUNNEL_FLEET_TIME"))
	if err != nil {
		t.Skip("without RUNNEL_FLEET_TIME, a duration: make fleet runs it")
	}
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("RUNNEL_FLEET_SEED"); text != "" {
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("RUNNEL_FLEET_SEED: %v", err)
		}
	}
	t.Logf("RUNNEL_FLEET_SEED=%d RUNNEL_FLEET_TIME=%v", seed, length)
	cluster := natstest.Start(t, 3, os.Environ())
	var states atomic.Int64
	open := func(t *testing.T) (here, there tasks.Queues) {
		prefix := fmt.Sprintf("p%d", states.Add(1))
		t.Cleanup(func() { cluster.Clear(prefix + "_"); cluster.Clear(prefix + "-") })
		own := func(o *Options) { o.Prefix, o.Replicas = prefix, 3 }
		return statetest.Patient(newState(t, cluster.URL(), own)),
			statetest.Patient(newState(t, cluster.URL(), own))
	}
	begun := time.Now()
	passes := 0
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ; time.Since(begun) < length && !t.Failed(); passes++ {
			t.Run(fmt.Sprint("pass ", passes), func(t *testing.T) {
				statetest.Run(t, func(t *testing.T) tasks.State { here, _ := open(t); return here })
				statetest.RunShared(t, func(t *testing.T) (here, there tasks.State) { return open(t) })
				statetest.RunQueue(t, open)
			})
		}
	}()
	faults := map[string]int{}
	for rng := rand.New(rand.NewPCG(seed, 0)); ; {
		node, pause := rng.IntN(3), time.Duration(rng.Int64N(int64(4*time.Second)))
		select {
		case <-time.After(time.Second + 2*pause):
		case <-ended:
			t.Logf("%d passes with %d states, %v", passes, states.Load(), faults)
			return
		}
		if rng.IntN(2) == 0 {
			faults["killed"]++
			cluster.Kill(node)
			time.Sleep(pause)
			cluster.Restart(node)
		} else {
			faults["cut off"]++
			cluster.Pause(node)
			time.Sleep(2 * pause)
			cluster.Resume(node)
		}
		cluster.Whole()
	}
}
