//go:build unix

package nats

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/rs/zerolog"

	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/run"
	"runnel/tasks/statetest"
)

// These count what a large fleet needs of its servers (the section of the manual's page "fleet" on large
// ones): messages, bytes and processor time, which do not depend on how busy the machine is as times do.

// used is what some clients have exchanged with their server, and the processor time of this process: that of
// the server, the front and the workers together.
type used struct {
	asked, got           uint64 // messages to and from the server
	askedBytes, gotBytes uint64
	stored, messages     uint64 // in the streams: bytes, messages
	processor            time.Duration
}

func usedBy(b *testing.B, s *server.Server, clients ...*State) (u used) {
	b.Helper()
	streams, err := s.Jsz(nil)
	if err != nil {
		b.Fatal(err)
	}
	u.stored, u.messages = streams.Bytes, streams.Messages
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	u.processor = time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	for _, c := range clients {
		if c.c.nc == nil { // not connected yet
			continue
		}
		traffic := c.c.nc.Stats()
		u.asked += traffic.OutMsgs
		u.got += traffic.InMsgs
		u.askedBytes += traffic.OutBytes
		u.gotBytes += traffic.InBytes
	}
	return u
}

// report reports what was used since before, divided by n.
func (u used) report(b *testing.B, before used, n float64, what string) {
	b.ReportMetric(float64(u.asked-before.asked)/n, "to-msgs/"+what)
	b.ReportMetric(float64(u.got-before.got)/n, "from-msgs/"+what)
	b.ReportMetric(float64(u.askedBytes-before.askedBytes)/n, "to-B/"+what)
	b.ReportMetric(float64(u.gotBytes-before.gotBytes)/n, "from-B/"+what)
	b.ReportMetric(float64((u.processor-before.processor).Microseconds())/n/1000, "cpu-ms/"+what)
}

// BenchmarkIdleFleet has workers that wait for calls. What each of them costs must not grow with their number.
func BenchmarkIdleFleet(b *testing.B) {
	const observed = 20 * time.Second // five leases, four sweeps
	for _, n := range []int{10, 40, 160} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			srv := startServer(b, b.TempDir(), 0)
			ctx, stop := context.WithCancel(b.Context())
			var workers sync.WaitGroup
			var states []*State
			for range n {
				state := newState(b, srv.ClientURL(), func(o *Options) { o.Log = zerolog.Nop() })
				states = append(states, state)
				workers.Go(func() { _, _ = state.Next(ctx, []string{"local"}, []string{"builds"}) })
			}
			time.Sleep(observed / 2) // all are there
			for b.Loop() {
				before := usedBy(b, srv, states...)
				time.Sleep(observed)
				usedBy(b, srv, states...).report(b, before, float64(n)*observed.Seconds(), "worker-s")
			}
			stop()
			workers.Wait()
		})
	}
}

// BenchmarkWorkedCall makes calls that a worker ends after it has written a number of bytes, which the front
// follows.
func BenchmarkWorkedCall(b *testing.B) {
	for _, size := range []int{0, 1 << 10, 64 << 10, 1 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			srv := startServer(b, b.TempDir(), 0)
			quiet := func(o *Options) { o.Log = zerolog.Nop(); o.Limits.MaxLive = 100 }
			front, state := newState(b, srv.ClientURL(), quiet), newState(b, srv.ClientURL(), quiet)
			r := statetest.NewRunner(b, run.Options{State: front, Owner: "local"})
			w := statetest.NewRunner(b, run.Options{State: state, Owner: "local"})
			piece := make([]byte, min(size, 64<<10))
			for i := range piece {
				piece[i] = byte('a' + i%26)
			}
			work := func(ctx context.Context, task *run.Run) run.Done {
				for written := 0; written < size; written += len(piece) {
					if err := task.Log().Append(ctx, partials.Chunk{Data: piece}); err != nil {
						return run.Done{Err: err}
					}
				}
				return run.Done{Result: mcp.Result("done")}
			}
			ctx, stop := context.WithCancel(b.Context())
			var worker sync.WaitGroup
			worker.Go(func() {
				for {
					o, err := state.Next(ctx, []string{"local"}, []string{"builds"})
					if err != nil {
						return
					}
					run, err := w.Take(ctx, o.Task.ID, []byte(`{}`), run.Spec{Work: work})
					if err != nil {
						b.Error(err)
						return
					}
					run.Begin()
					o.Done()
					run.Delivered()
				}
			})
			offer := tasks.Offer{Class: "builds", Timeout: time.Hour, Arguments: json.RawMessage(`{}`)}
			call := func() {
				run := statetest.StartDelivered(b, r, func(ctx context.Context, task *run.Run) run.Done {
					return run.Done{Err: task.Offer(ctx, offer)}
				})
				reader := run.Log().NewReader(0)
				defer reader.Close()
				for reader.Wait(ctx, 1) == nil {
					reader.Next(1 << 20)
				}
				<-run.Ended()
				if end := run.Task(); end.Status != mcp.TaskCompleted {
					b.Fatalf("%+v", end)
				}
			}
			call()
			before := usedBy(b, srv, front, state)
			for b.Loop() {
				call()
			}
			now := usedBy(b, srv, front, state)
			n := float64(b.N)
			now.report(b, before, n, "call")
			b.ReportMetric(float64(now.stored-before.stored)/n, "stored-B/call")
			b.ReportMetric(float64(now.messages-before.messages)/n, "stored-msgs/call")
			stop()
			worker.Wait()
		})
	}
}
