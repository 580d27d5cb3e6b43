package engine

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/tasks"
)

// crowd is a store and a queue with tasks that wait, which counts how often it is looked at.
type crowd struct {
	Driver
	Queue
	waits        []InLine
	since        int64
	reads, looks atomic.Int64
}

func (c *crowd) Connect(context.Context) error { return nil }
func (c *crowd) Disconnect()                   {}
func (c *crowd) Open(_ context.Context, _ *Space) (Driver, Queue, error) {
	return c, c, nil
}
func (c *crowd) Lease(context.Context) error                   { return nil }
func (c *crowd) Leave(context.Context)                         {}
func (c *crowd) Tidy(context.Context) error                    { return nil }
func (c *crowd) Sweeps(context.Context, bool) (bool, error)    { return true, nil }
func (c *crowd) Marks(context.Context, string) ([]Mark, error) { return nil, nil }
func (c *crowd) Alive(context.Context) ([]string, error)       { return nil, nil }
func (c *crowd) Reach(context.Context) error                   { return nil }
func (c *crowd) Waiting(context.Context) ([]string, error)     { return nil, nil }
func (c *crowd) Output(string, func() int64) Output            { return nil }
func (c *crowd) Extent(context.Context, *Record, int64) error  { return nil }
func (c *crowd) Hear(context.Context, string) (Hearing, error) {
	return silence{}, nil
}

func (c *crowd) Read(_ context.Context, id string) (*Record, error) {
	c.reads.Add(1)
	r := &Record{}
	r.ID = id
	r.Stored = Stored{Status: mcp.TaskWorking, TTL: int64(time.Hour), Keeper: QueueKeeper,
		Offer: &waiting{Class: "builds", Since: c.since, Timeout: int64(time.Hour)}}
	r.Check(nil, false)
	return r, nil
}

func (c *crowd) Shown(context.Context) (map[string][]InLine, error) {
	c.looks.Add(1)
	time.Sleep(10 * time.Millisecond) // a server's answer
	return map[string][]InLine{"builds": c.waits}, nil
}

// silence is a Hearing that hears nothing.
type silence struct{}

func (silence) Wait(ctx context.Context) (News, error) {
	<-ctx.Done()
	return News{}, context.Cause(ctx)
}

func (silence) Found() {}
func (silence) Close() {}

// Followers of a waiting task cost the servers little: one look at the queue serves all of them, and records
// are seldom read.
func TestManyWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many, seconds = 200, 60
		c := &crowd{since: time.Now().UnixNano()}
		for i := range many {
			c.waits = append(c.waits, InLine{ID: fmt.Sprint("task", i)})
		}
		s := New(c, "nowhere", Options{})
		ctx, stop := context.WithTimeout(t.Context(), seconds*time.Second)
		defer stop()
		var all sync.WaitGroup
		for place, waits := range c.waits {
			all.Go(func() {
				log := partials.NewLog(nil)
				task := tasks.Task{ID: waits.ID, Owner: "local", Log: log,
					Segments: partials.NewSegments(log)}
				for s.Space("local").Watch(ctx, &task) == nil {
				}
				if want := fmt.Sprintf("waiting for a worker of class builds: %d before it",
					place); task.StatusMessage != want {
					t.Errorf("%q, want %q", task.StatusMessage, want)
				}
			})
		}
		all.Wait()
		if reads := c.reads.Load(); reads > many*(seconds/10+2) {
			t.Errorf("%d records are read in %d seconds", reads, seconds)
		}
		if looks := c.looks.Load(); looks > 3*seconds {
			t.Errorf("the line is looked at %d times in %d seconds", looks, seconds)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// refusing is a crowd to which nothing can be shown some times.
type refusing struct {
	crowd
	refusals int
	shown    chan string
}

func (q *refusing) Open(context.Context, *Space) (Driver, Queue, error) { return q, q, nil }

func (q *refusing) Show(_ context.Context, r *Record) error {
	if q.refusals--; q.refusals >= 0 {
		return tasks.ErrBusy
	}
	q.shown <- r.ID
	return nil
}

// A task that could not be shown to workers is shown as soon as they can be reached, and one that does not
// wait any more is not.
func TestShownAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for waits, want := range map[string]string{"waits": "waits", "overdue": ""} {
			q := &refusing{crowd: crowd{since: time.Now().UnixNano()}, refusals: 5,
				shown: make(chan string, 1)}
			s := New(q, "nowhere", Options{})
			sp := s.Space("local")
			if err := sp.Ready(t.Context()); err != nil {
				t.Fatal(err)
			}
			r, _ := q.Read(t.Context(), waits)
			if waits == "overdue" {
				q.since -= int64(2 * time.Hour)
			}
			sp.show(t.Context(), r)
			got := ""
			select {
			case got = <-q.shown:
			case <-time.After(2 * sweepInterval):
			}
			if got != want {
				t.Errorf("shown: %q, want %q", got, want)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

// A request that is still under way when its space ends starts nothing that outlives it. The race detector
// looks at the two.
func TestStopBesideGo(t *testing.T) {
	for range 200 {
		sp := &Space{}
		sp.ctx, sp.stop = context.WithCancel(context.Background())
		sp.Go(func(ctx context.Context) { <-ctx.Done() })
		var running atomic.Int64
		late := make(chan struct{})
		go func() {
			defer close(late)
			<-sp.ctx.Done()
			for range 10 {
				sp.Go(func(context.Context) {
					running.Add(1)
					time.Sleep(time.Microsecond)
					running.Add(-1)
				})
			}
		}()
		sp.Stop()
		if n := running.Load(); n != 0 {
			t.Fatalf("%d goroutines are left", n)
		}
		<-late
	}
}

// A task may be taken while the state is closed. The race detector looks at what is noted of it.
func TestTakenBesideClose(t *testing.T) {
	s := New(nil, "nowhere", Options{})
	sp := &Space{process: s.process, Driver: &crowd{}, unanswered: map[string]struct{}{"a": {}}}
	noted := make(chan struct{})
	go func() {
		defer close(noted)
		sp.mu.Lock()
		defer sp.mu.Unlock()
		sp.unanswered["b"] = struct{}{}
	}()
	sp.returnUnanswered(t.Context())
	<-noted
}
