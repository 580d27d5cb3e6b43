//go:build unix

package nats

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
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

// BenchmarkQuick makes calls that a worker ends as soon as it has taken them, one after the other. The
// processor time is that of the front, the worker and the server, and the messages are those that the front
// and the worker send.
func BenchmarkQuick(b *testing.B) {
	url := startServer(b, b.TempDir(), 0).ClientURL()
	quiet := func(o *Options) { o.Log = zerolog.Nop(); o.Limits.MaxLive = 100 }
	front, state := newState(b, url, quiet), newState(b, url, quiet)
	r := statetest.NewRunner(b, run.Options{State: front, Owner: "local"})
	w := statetest.NewRunner(b, run.Options{State: state, Owner: "local"})
	quick := func(ctx context.Context, task *run.Run) run.Done {
		err := task.Log().Append(ctx, partials.Chunk{Data: []byte("line\n")})
		return run.Done{Result: mcp.Result("done"), Err: err}
	}
	offer := tasks.Offer{Class: "builds", Timeout: time.Hour, Arguments: json.RawMessage(`{}`)}
	ctx, stop := context.WithCancel(b.Context())
	var worker sync.WaitGroup
	worker.Go(func() {
		for {
			o, err := state.Next(ctx, []string{"local"}, []string{"builds"})
			if err != nil {
				return
			}
			run, err := w.Take(ctx, o.Task.ID, []byte(`{}`), run.Spec{Work: quick})
			if err != nil {
				b.Error(err)
				return
			}
			run.Begin()
			o.Done()
			run.Delivered()
		}
	})
	call := func() {
		run, err := r.Start(b.Context(), run.Spec{Tool: "test",
			Work: func(ctx context.Context, task *run.Run) run.Done {
				return run.Done{Err: task.Offer(ctx, offer)}
			}})
		if err != nil {
			b.Fatal(err)
		}
		run.Delivered()
		<-run.Ended()
		if end := run.Task(); end.Status != mcp.TaskCompleted {
			b.Fatalf("%+v", end)
		}
	}
	for range 20 {
		call()
	}
	cpu := func() time.Duration {
		var used syscall.Rusage
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used)
		return time.Duration(used.Utime.Nano() + used.Stime.Nano())
	}
	sent := func() uint64 { return front.c.nc.Stats().OutMsgs + state.c.nc.Stats().OutMsgs }
	beganCPU, beganSent := cpu(), sent()
	var took []time.Duration
	for b.Loop() {
		began := time.Now()
		call()
		took = append(took, time.Since(began))
	}
	n := float64(len(took))
	b.ReportMetric(float64((cpu()-beganCPU).Microseconds())/n/1000, "cpu-ms/call")
	b.ReportMetric(float64(sent()-beganSent)/n, "messages/call")
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
	stop()
	worker.Wait()
}
