package run

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"runnel/partials"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tasks"
)

// started is a run with what it told of its status.
type started struct {
	*Run
	told     []mcp.Task
	silenced chan struct{} // closed by Silence
}

func (s *started) Status(t mcp.Task) { s.told = append(s.told, t) }

func (s *started) Silence() { close(s.silenced) }

func (*started) Asked(*Question) (func(), error) { return nil, nil }

func (*started) Progress(tasks.Progress) {}

// ordered is a client that notes in which order it hears of what.
type ordered struct {
	order    []string
	silenced chan struct{}
}

func (o *ordered) Status(t mcp.Task) { o.order = append(o.order, string(t.Status)) }

func (o *ordered) Silence() { o.order = append(o.order, "silenced"); close(o.silenced) }

func (*ordered) Asked(*Question) (func(), error) { return nil, nil }

func (*ordered) Progress(tasks.Progress) {}

// start runs work as a task with a handle and delivers nothing.
func start(t *testing.T, r *Runner, work Work) *started {
	t.Helper()
	s := &started{silenced: make(chan struct{})}
	run, err := r.Start(t.Context(), Spec{Tool: "test", Handle: true, Work: work, Client: s})
	if err != nil {
		t.Fatal(err)
	}
	s.Run = run
	return s
}

func delivered(context.Context) {}

func newRunner(t *testing.T, o Options) *Runner {
	o.Log = zerolog.Nop()
	r := NewRunner(o)
	t.Cleanup(r.Close)
	return r
}

func untilDone(ctx context.Context, _ *Run) Done {
	<-ctx.Done()
	return Done{Err: context.Cause(ctx)}
}

func TestRunEnds(t *testing.T) {
	for _, c := range []struct {
		name    string
		work    Work
		status  mcp.TaskStatus
		message string
		code    int // of the JSON-RPC error it ends with
	}{
		{"result", func(context.Context, *Run) Done {
			return Done{Result: mcp.Result("fine")}
		}, mcp.TaskCompleted, "", 0},
		{"tool error", func(context.Context, *Run) Done {
			return Done{Result: mcp.ErrorResult("bad"), Status: "exit code 2"}
		}, mcp.TaskFailed, "exit code 2", 0},
		{"protocol error", func(context.Context, *Run) Done {
			return Done{Err: rpc.Errorf(mcp.CodeInvalidParams, "no such thing")}
		}, mcp.TaskFailed, "no such thing", mcp.CodeInvalidParams},
		{"other error", func(context.Context, *Run) Done {
			return Done{Err: errors.New("secret")}
		}, mcp.TaskFailed, "internal error", mcp.CodeInternalError},
		{"panic", func(context.Context, *Run) Done {
			panic("secret")
		}, mcp.TaskFailed, "internal error", mcp.CodeInternalError},
		{"long message", func(context.Context, *Run) Done {
			return Done{Result: mcp.ErrorResult(""), Status: strings.Repeat("ä", 2000)}
		}, mcp.TaskFailed, strings.Repeat("ä", 1022) + "…", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRunner(t, Options{})
				s := start(t, r, c.work)
				s.Deliver(delivered)
				<-s.Ended()
				task := s.Task()
				if task.Status != c.status || task.StatusMessage != c.message {
					t.Errorf("ended %s %q, want %s %q", task.Status, task.StatusMessage, c.status, c.message)
				}
				if got := task.Outcome.Err; (got != nil) != (c.code != 0) ||
					got != nil && got.Code != c.code {
					t.Errorf("error %v, want code %d", got, c.code)
				}
				if len(s.told) != 1 || s.told[0].Status != c.status {
					t.Errorf("told %v, want one terminal status", s.told)
				}
				if stored, err := r.o.State.Open("local").Get(t.Context(), s.ID()); err != nil ||
					stored.Status != c.status {
					t.Errorf("stored %s (%v), want %s", stored.Status, err, c.status)
				}
				if s.Cancel("late") {
					t.Error("an ended task could be cancelled")
				}
				r.Close()
			})
		})
	}
}

// A task that has written its output but whose output is not delivered has not ended.
func TestEndWaitsForDelivery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(t, Options{})
		s := start(t, r, func(ctx context.Context, run *Run) Done {
			return Done{Result: mcp.Result("done"),
				Err: run.Log().Append(ctx, partials.Chunk{Data: []byte("output")})}
		})
		release := make(chan struct{})
		s.Deliver(func(context.Context) { <-release })
		synctest.Wait()
		if got := s.Task().Status; got != mcp.TaskWorking || len(s.told) > 0 {
			t.Fatalf("status %s, told %v before its output was delivered", got, s.told)
		}
		close(release)
		<-s.Ended()
		if got := s.Task().Status; got != mcp.TaskCompleted {
			t.Errorf("status %s", got)
		}
		r.Close()
	})
}

func TestCancelStopsDeliveryFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(t, Options{})
		o := &ordered{silenced: make(chan struct{})}
		run, err := r.Start(t.Context(), Spec{Handle: true, Work: untilDone, Client: o})
		if err != nil {
			t.Fatal(err)
		}
		run.Deliver(func(ctx context.Context) { <-ctx.Done() })
		synctest.Wait()
		if !run.Cancel("enough") {
			t.Fatal("could not be cancelled")
		}
		if got := strings.Join(o.order, " "); got != "silenced cancelled" {
			t.Errorf("order: %s", got)
		}
		if run.Cancel("again") {
			t.Error("cancelled twice")
		}
		r.Close()
	})
}

// Whatever cuts a task off, its output is delivered before its end is told; a client that does not read is
// not waited for, and nothing is written for it afterwards.
func TestCutOffDeliversFirst(t *testing.T) {
	for name, cut := range map[string]func(r *Runner, run *Run){
		"stopped": func(r *Runner, _ *Run) { go r.Close() },
		"lost":    func(_ *Runner, run *Run) { run.Log().Fail(errors.New("disk full")) },
		"taken":   func(_ *Runner, run *Run) { go run.abort(tasks.ErrFenced) },
		"expired": func(*Runner, *Run) { time.Sleep(time.Minute) },
	} {
		for _, reads := range []bool{true, false} {
			t.Run(fmt.Sprint(name, " ", reads), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newRunner(t, Options{})
					o := &ordered{silenced: make(chan struct{})}
					run, err := r.Make(t.Context(),
						Spec{Handle: true, TTL: time.Minute, Work: untilDone, Client: o})
					if err == nil {
						err = run.Log().Append(t.Context(), partials.Chunk{Data: []byte("output")})
					}
					if err != nil {
						t.Fatal(err)
					}
					run.Begin()
					reader := run.Log().NewReader(0)
					run.Deliver(func(context.Context) {
						defer reader.Close()
						// All that there is, when it is closed.
						for reader.Wait(context.Background(), 100) == nil {
							time.Sleep(time.Second)
							if !reads {
								<-o.silenced
								return
							}
							b, _ := reader.Next(100)
							o.order = append(o.order, string(b.Chunks()[0].Data))
						}
					})
					synctest.Wait()
					began := time.Now()
					cut(r, run)
					<-run.Ended()
					took := time.Since(began)
					synctest.Wait()
					want, limit := "output silenced failed", time.Minute+time.Second
					if !reads {
						want, limit = "silenced failed", time.Minute+drainIdle*drainWait
					}
					if got := strings.Join(o.order, " "); got != want || took > limit {
						t.Errorf("after %v: %s, want %s", took, got, want)
					}
					r.Close()
				})
			})
		}
	}
}

// A client that reads slowly is waited for as long as it reads, and no longer than that.
func TestCutOffWaitsForASlowClient(t *testing.T) {
	for _, c := range []struct {
		reads int
		took  time.Duration
	}{{4, 5720 * time.Millisecond}, {2, 4900 * time.Millisecond}} {
		synctest.Test(t, func(t *testing.T) {
			r := newRunner(t, Options{})
			s := start(t, r, untilDone)
			if err := s.Log().Append(t.Context(), partials.Chunk{Data: make([]byte, 40)}); err != nil {
				t.Fatal(err)
			}
			reader := s.Log().NewReader(0)
			s.Deliver(func(context.Context) {
				defer reader.Close()
				for range c.reads {
					time.Sleep(1430 * time.Millisecond)
					reader.Next(10)
				}
				if c.reads < 4 {
					<-s.silenced
				}
			})
			began := time.Now()
			r.Close()
			if took := time.Since(began); took != c.took {
				t.Errorf("after %d reads it ended after %v, want %v", c.reads, took, c.took)
			}
		})
	}
}

func TestExpiryStopsWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(t, Options{TTL: time.Minute})
		s := start(t, r, untilDone)
		s.Deliver(func(ctx context.Context) { <-ctx.Done() })
		time.Sleep(time.Minute - time.Millisecond)
		synctest.Wait()
		if _, err := r.Get(t.Context(), s.ID()); err != nil {
			t.Errorf("before the ttl is over: %v", err)
		}
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		if err := r.Wait(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := r.Get(t.Context(), s.ID()); !errors.Is(err, tasks.ErrNotFound) {
			t.Errorf("after it: %v", err)
		}
		r.Close()
	})
}

func TestTTLBounds(t *testing.T) {
	r := newRunner(t, Options{})
	for asked, want := range map[time.Duration]time.Duration{
		0:             time.Hour,
		1:             time.Second,
		time.Second:   time.Second,
		time.Minute:   time.Minute,
		100 * 3600e9:  24 * time.Hour,
		1<<63 - 1:     24 * time.Hour,
		24 * 3600e9:   24 * time.Hour,
		24*3600e9 + 1: 24 * time.Hour,
	} {
		if got := r.ttl(&Spec{TTL: asked}); got != want {
			t.Errorf("ttl(%v) = %v, want %v", asked, got, want)
		}
	}
	for longest, want := range map[time.Duration]time.Duration{
		20 * time.Minute: time.Hour, 3 * time.Hour: 6 * time.Hour, 20 * time.Hour: 24 * time.Hour,
	} {
		if got := r.ttl(&Spec{Longest: longest}); got != want {
			t.Errorf("work of %v gets %v, want %v", longest, got, want)
		}
		if got := r.ttl(&Spec{Longest: longest, TTL: time.Minute}); got != time.Minute {
			t.Errorf("work of %v gets %v, not the minute that its requestor wants", longest, got)
		}
	}
	r = newRunner(t, Options{MaxTTL: time.Hour, MaxLasting: 48 * time.Hour})
	if got := r.ttl(&Spec{TTL: 1<<63 - 1, Lasts: true}); got != 48*time.Hour {
		t.Errorf("one that lasts gets %v", got)
	}
}

func TestLiveLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(t, Options{Limits: tasks.Limits{MaxLive: 2}})
		first := start(t, r, untilDone)
		start(t, r, untilDone)
		_, err := r.Start(t.Context(), Spec{Handle: true, Work: untilDone})
		var wire *rpc.Error
		if !errors.As(err, &wire) || !strings.Contains(wire.Message, "limit is 2") {
			t.Fatalf("third task: %v", err)
		}
		if _, err := r.Start(t.Context(), Spec{Work: untilDone}); err != nil {
			t.Errorf("a call without a handle counts: %v", err)
		}
		first.Cancel("")
		if _, err := r.Start(t.Context(), Spec{Handle: true, Work: untilDone}); err != nil {
			t.Errorf("after one ended: %v", err)
		}
		r.Close()
	})
}

// Whoever looks at a task's segments while it ends sees them. Only the race detector tells.
func TestSegmentsAreSeenWhileTheTaskEnds(t *testing.T) {
	r := newRunner(t, Options{})
	for range 50 {
		run := start(t, r, untilDone)
		go run.Cancel("")
		if run.Segments() == nil {
			t.Fatal("none")
		}
		<-run.Ended()
	}
}

// A client comes back for a call whose delivery has returned already, because it had nothing to write:
// the run waits for the delivery that is held for it, and for no other.
func TestHoldAfterFollowerHasReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(t, Options{})
		answered := make(chan struct{})
		s := start(t, r, func(context.Context, *Run) Done {
			<-answered
			return Done{Result: mcp.Result("fine")}
		})
		s.Deliver(delivered)
		synctest.Wait()
		for range 2 { // questions
			s.Hold()
			s.Deliver(delivered)
			synctest.Wait()
		}
		s.Hold()
		close(answered)
		synctest.Wait()
		select {
		case <-s.Ended():
			t.Fatal("the run has ended without the delivery that is held for")
		default:
		}
		s.Deliver(delivered)
		<-s.Ended()
	})
}
