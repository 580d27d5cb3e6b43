package nats

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"runnel/internal/signal"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/engine"
	"runnel/tasks/run"
	"runnel/tasks/statetest"
)

// One of an owner's processes sweeps for all, until it ends, dies or fails; the others do not ask for all leases.
func TestOneSweeps(t *testing.T) {
	t.Parallel()
	url := startServer(t, t.TempDir(), 0).ClientURL()
	var states []*State
	var spaces []*space
	for range 5 {
		state := newState(t, url)
		states, spaces = append(states, state), append(spaces, spaceOf(t, state))
	}
	for _, sp := range spaces {
		sp.Stop() // they sweep when this test says so
	}
	asked, err := states[0].c.nc.SubscribeSync("$JS.API.STREAM.INFO." + spaces[0].leaseName)
	if err != nil {
		t.Fatal(err)
	}
	// sweeps lets all sweep twice and returns the one that does so for all.
	sweeps := func(spaces []*space) (sweeper *space) {
		t.Helper()
		for range 2 {
			for _, sp := range spaces {
				if err := sp.SweepInTurn(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, sp := range spaces {
			if sp.sweeps.Load() && sweeper != nil {
				t.Fatal("two sweep")
			}
			if sp.sweeps.Load() {
				sweeper = sp
			}
		}
		if sweeper == nil {
			t.Fatal("none sweeps")
		}
		if err := states[0].c.nc.Flush(); err != nil {
			t.Fatal(err)
		}
		requests, _, _ := asked.Pending()
		for range requests {
			m, _ := asked.NextMsg(time.Minute)
			if !strings.Contains(string(m.Data), "alive.") {
				requests--
			}
		}
		if requests > 3 { // where it changes in between, two have asked
			t.Errorf("%d processes asked for all leases %d times in two sweeps", len(spaces), requests)
		}
		return sweeper
	}
	first := sweeps(spaces)
	if first != spaces[0] || first != sweeps(spaces) {
		t.Error("it changes without a reason")
	}
	held, err := first.lastOf(t.Context(), first.leaseName, first.sweeper())
	if err != nil || len(held) != 1 || held[0].Header.Get("Nats-TTL") != engine.LeaseTTL.String() {
		t.Errorf("%v, %v: it is not taken over from one that dies", held, err)
	}
	if _, err := first.Sweeps(t.Context(), false); err != nil { // its last sweep has failed
		t.Fatal(err)
	}
	second := sweeps(spaces[1:])
	if again, err := first.Sweeps(t.Context(), true); err != nil || again {
		t.Errorf("%v, %v: it has been taken over", again, err)
	}
	if second != spaces[1] {
		t.Error("it is not the next one")
	}
	if err := states[1].Close(); err != nil {
		t.Fatal(err)
	}
	if third := sweeps(spaces[2:]); third != spaces[2] {
		t.Error("it is not the next one")
	}
	spaces[2].unlease(t)
	if fourth := sweeps(spaces[3:]); fourth != spaces[3] {
		t.Error("it is not taken over from one that has died")
	}
}

// A process that does not sweep for all still finds that the front of a task that it runs has died.
func TestOwnSweep(t *testing.T) {
	t.Parallel()
	url := startServer(t, t.TempDir(), 0).ClientURL()
	var clock statetest.Clock
	front, worker, sweeper := newState(t, url), newState(t, url, at(&clock)), newState(t, url)
	if is, err := spaceOf(t, sweeper).Sweeps(t.Context(), true); err != nil || !is {
		t.Fatal(is, err)
	}
	for range 2 {
		var cancelled signal.Latch
		waits, err := statetest.NewRunner(t, run.Options{State: front}).
			Start(t.Context(), run.Spec{Tool: "test",
				Work: func(ctx context.Context, task *run.Run) run.Done {
					return run.Done{Err: task.Offer(ctx,
						tasks.Offer{Class: "builds", Timeout: time.Minute, Arguments: []byte(`{}`)})}
				}})
		if err != nil {
			t.Fatal(err)
		}
		waits.Begin()
		r := statetest.NewRunner(t, run.Options{State: worker})
		_, err = worker.Next(t.Context(), []string{"local"}, []string{"builds"})
		if err != nil {
			t.Fatal(err)
		}
		runs, err := r.Take(t.Context(), waits.ID(), []byte(`{}`),
			run.Spec{Work: func(ctx context.Context, _ *run.Run) run.Done {
				<-ctx.Done()
				cancelled.Set()
				return run.Done{Err: context.Cause(ctx)}
			}})
		if err != nil {
			t.Fatal(err)
		}
		runs.Begin()
		sp := spaceOf(t, worker)
		for range 2 { // its front is there
			if err := sp.SweepInTurn(t.Context()); err != nil {
				t.Fatal(err)
			}
			clock.Add(engine.RenewInterval)
		}
		if cancelled.IsSet() || sp.sweeps.Load() {
			t.Fatal("it is cancelled, or sweeps for all")
		}
		spaceOf(t, front).Stop()
		spaceOf(t, front).unlease(t)
		statetest.Eventually(t, func() bool {
			if err := sp.SweepInTurn(t.Context()); err != nil {
				t.Fatal(err)
			}
			clock.Add(engine.RenewInterval)
			if sp.sweeps.Load() {
				t.Fatal("it sweeps for all")
			}
			return cancelled.IsSet()
		})
		<-runs.Ended()
		if end := runs.Task(); end.Status != mcp.TaskCancelled {
			t.Errorf("%+v", end)
		}
		front = newState(t, url)
	}
}

// Room in reserve that is deleted for an end, just when a sweep makes it, is made by the next sweep.
func TestReserveDeletedWhileMade(t *testing.T) {
	t.Parallel()
	state := newState(t, startServer(t, t.TempDir(), 0).ClientURL())
	statetest.Put(t, state, statetest.Working("a"))
	sp := spaceOf(t, state)
	sp.Stop() // it does nothing by itself
	there := func() []string {
		list, err := sp.subjects(t.Context(), sp.name, sp.root+"reserve.*")
		if err != nil {
			t.Error(err)
		}
		return list
	}
	tidy := func() {
		if err := sp.Tidy(t.Context()); err != nil {
			t.Error(err)
		}
	}
	full := func() error { return engine.ErrNoRoom }
	for round := range 10 {
		var both sync.WaitGroup
		both.Go(tidy)
		both.Go(func() {
			for len(there()) == 0 && !t.Failed() { // until its first piece is there
			}
			_ = sp.withReserve(t.Context(), full)
		})
		both.Wait()
		if tidy(); len(there()) != reservePieces {
			t.Fatalf("round %d: of the reserve there is %v", round, there())
		}
		_ = sp.withReserve(t.Context(), full) // the next round begins without
	}
}
