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
	Store
	Queue
	waits        []string
	since        int64
	reads, looks atomic.Int64
}

func (c *crowd) Connect(context.Context) error { return nil }
func (c *crowd) Disconnect()                   {}
func (c *crowd) Open(_ context.Context, _ *Space) (Store, Queue, error) {
	return c, c, nil
}
func (c *crowd) Lease(context.Context) error               { return nil }
func (c *crowd) Leave(context.Context)                     {}
func (c *crowd) DropExpired(context.Context) error         { return nil }
func (c *crowd) Marks(context.Context) ([]Mark, error)     { return nil, nil }
func (c *crowd) Alive(context.Context) ([]string, error)   { return nil, nil }
func (c *crowd) Waiting(context.Context) ([]string, error) { return nil, nil }
func (c *crowd) Output(string, func() int64) Output        { return nil }
func (c *crowd) Hear(context.Context, string) (Hearing, error) {
	return silence{}, nil
}

func (c *crowd) Read(_ context.Context, id string) (*Record, error) {
	c.reads.Add(1)
	r := &Record{}
	r.ID = id
	r.Stored = Stored{Status: mcp.TaskWorking, TTL: int64(time.Hour), Keeper: QueueKeeper, Offer: &Waiting{Class: "builds", Since: c.since, Timeout: int64(time.Hour)}}
	r.Check(nil, false)
	return r, nil
}

func (c *crowd) Shown(context.Context) (map[string][]string, error) {
	c.looks.Add(1)
	time.Sleep(10 * time.Millisecond) // a server's answer
	return map[string][]string{"builds": c.waits}, nil
}

// silence is a Hearing that hears nothing.
type silence struct{}

func (silence) Wait(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }
func (silence) Close()                         {}

// Who follows a task that waits costs the servers little: one look at the line serves all, and records are seldom read.
func TestManyWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many, seconds = 200, 60
		c := &crowd{since: time.Now().UnixNano()}
		for i := range many {
			c.waits = append(c.waits, fmt.Sprint("task", i))
		}
		s := New(c, "nowhere", Options{})
		ctx, stop := context.WithTimeout(t.Context(), seconds*time.Second)
		defer stop()
		var all sync.WaitGroup
		for _, id := range c.waits {
			all.Go(func() {
				log := partials.NewLog(nil)
				task := tasks.Task{ID: id, Owner: "local", Log: log, Segments: partials.NewSegments(log)}
				for s.Watch(ctx, &task) == nil {
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

// Who follows hears of few of the many that are gone before.
func TestRoughly(t *testing.T) {
	told := map[string]bool{}
	for n := range 1000 {
		told[roughly(n)] = true
	}
	if len(told) != 28 || !told["9"] || !told["about 10"] || !told["about 900"] {
		t.Errorf("%d: %v", len(told), told)
	}
}
