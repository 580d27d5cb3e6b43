package tools

import (
	"context"
	"os"

	"runnel/partials"
	"runnel/rpc"
	"runnel/tasks"
)

// DefaultServeOptions returns the options of an empty config file. Start from them to change some for [Serve].
func DefaultServeOptions() ServeOptions {
	return ServeOptions{
		Pump:          partials.PumpOptions{Pace: partials.DefaultPace, MaxBytes: partials.DefaultMaxBytes},
		SyncWait:      tasks.DefaultSyncWait,
		ImmediateWait: tasks.DefaultImmediateWait,
		Heartbeat:     tasks.DefaultHeartbeat,
		ByClient:      ByClient{SyncWait: true, ImmediateWait: true, MaxResult: true},
	}
}

// ListenAndServe serves tools over stdin and stdout to the client that has started this program, until the input ends or ctx does. Tasks
// live in memory. While it runs, os.Stdout is stderr, since nothing else may be printed between the messages. For other options, use
// [Serve].
func ListenAndServe(ctx context.Context, tools ...Tool) error {
	registry := &Registry{}
	for _, t := range tools {
		if err := registry.Add(t); err != nil {
			return err
		}
	}
	out := os.Stdout
	os.Stdout = os.Stderr
	defer func() { os.Stdout = out }()
	server, runner := rpc.NewServer(nil), tasks.NewRunner(tasks.Options{})
	defer runner.Close()
	runner.Register(server)
	Serve(server, registry, runner, DefaultServeOptions())
	return server.Serve(ctx, os.Stdin, out)
}
