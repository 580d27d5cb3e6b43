//go:build unix

package nats

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/run"
	"runnel/tasks/statetest"
)

// BenchmarkWaiting offers many tasks at once, which two workers run, one at a time each: what waits must not
// make what is done slower.
func BenchmarkWaiting(b *testing.B) {
	for _, n := range []int{100, 300, 600, 1200} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				runWaiting(b, n)
			}
		})
	}
}

func runWaiting(b *testing.B, n int) {
	url := startServer(b, b.TempDir(), 0).ClientURL()
	quiet := func(o *Options) { o.Log = zerolog.Nop(); o.Limits.MaxLive = 10_000 }
	front := newState(b, url, quiet)
	r := statetest.NewRunner(b, run.Options{State: front, Owner: "local",
		Limits: tasks.Limits{MaxLive: 10_000}})
	ctx, stop := context.WithCancel(b.Context())
	var workers, offers sync.WaitGroup
	var began syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &began)
	at := time.Now()
	runs := make([]*run.Run, n)
	var next atomic.Int64
	for range 8 {
		offers.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				runs[i] = statetest.StartDelivered(b, r, func(ctx context.Context, task *run.Run) run.Done {
					return run.Done{Err: task.Offer(ctx,
						tasks.Offer{Class: "builds", Timeout: time.Hour, Arguments: json.RawMessage(`{}`)})}
				})
			}
		})
	}
	offers.Wait()
	offered := time.Since(at)
	for range 2 {
		state := newState(b, url, quiet)
		w := statetest.NewRunner(b, run.Options{State: state, Owner: "local"})
		workers.Go(func() {
			for {
				o, err := state.Next(ctx, []string{"local"}, []string{"builds"})
				if err != nil {
					return
				}
				run, err := w.Take(ctx, o.Task.ID, []byte(`{}`),
					run.Spec{Work: func(ctx context.Context, task *run.Run) run.Done {
						return run.Done{Result: mcp.Result("done"),
							Err: task.Log().Append(ctx, partials.Chunk{Data: []byte("line\n")})}
					}})
				o.Done()
				if err != nil {
					b.Log(err)
					continue
				}
				run.Begin()
				run.Delivered()
				<-run.Ended()
			}
		})
	}
	for _, run := range runs {
		<-run.Ended()
		if end := run.Task(); end.Status != mcp.TaskCompleted {
			b.Fatalf("%+v", end)
		}
	}
	took := time.Since(at)
	stop()
	workers.Wait()
	var now syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &now)
	cpu := time.Duration(now.Utime.Nano() + now.Stime.Nano() - began.Utime.Nano() - began.Stime.Nano())
	b.ReportMetric(offered.Seconds(), "offer-s")
	b.ReportMetric(took.Seconds(), "s")
	b.ReportMetric(float64(cpu.Milliseconds())/float64(n), "cpu-ms/task")
}
