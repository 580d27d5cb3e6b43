package tools

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/rs/zerolog"

	"runnel/internal/term"
	"runnel/partials"
	"runnel/rpc"
	httpserver "runnel/rpc/http"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/methods"
	"runnel/tasks/run"
)

// DefaultServeOptions returns the options of an empty config file. Start from them to change some for
// [Serve].
func DefaultServeOptions() ServeOptions {
	return ServeOptions{
		Deliver: partials.DeliverOptions{Pace: partials.DefaultPace,
			MaxBytes: partials.DefaultMaxBytes},
		SyncWait:      tasks.DefaultSyncWait,
		ImmediateWait: tasks.DefaultImmediateWait,
		Heartbeat:     tasks.DefaultHeartbeat,
		ByClient:      ByClient{SyncWait: true, ImmediateWait: true, MaxResult: true},
	}
}

// ListenAndServe serves tools over stdin and stdout to the client that has started this program, until the
// input ends or ctx does. Tasks live in memory. While it runs, os.Stdout is stderr, since nothing else may be
// printed between the messages. [Server] has options.
func ListenAndServe(ctx context.Context, tools ...Tool) error {
	return (&Server{}).ListenAndServe(ctx, tools...)
}

// Server says how tools are served. The zero value works. For still other options, use [Serve].
type Server struct {
	Name         string // what clients are told; "" = the name of the program
	Version      string // likewise
	Instructions string // for the model
	// State is where tasks are kept, such as sqlite.New(sqlite.Options{Dir: "tasks"}); it is closed at the
	// end. nil = in memory.
	State tasks.State
	// An address of this machine, such as 127.0.0.1:8080: tools are served there, at /mcp; "" = over stdin
	// and stdout.
	HTTP string
	Log  *zerolog.Logger // nil = errors and warnings, such as the stack of a tool that panics, to stderr
}

// ListenAndServe serves tools until the input ends, or ctx does.
func (s *Server) ListenAndServe(ctx context.Context, tools ...Tool) (err error) {
	registry := &Registry{}
	for _, t := range tools {
		if err := registry.Add(t); err != nil {
			return err
		}
	}
	var w io.Writer = os.Stderr
	if term.IsTerminal(os.Stderr) {
		w = term.LogWriter(w, os.Getenv("NO_COLOR") == "")
	}
	log := zerolog.New(w).Level(zerolog.WarnLevel).With().Timestamp().Logger()
	if s.Log != nil {
		log = *s.Log
	}
	if state, ok := s.State.(io.Closer); ok {
		defer func() { err = errors.Join(err, state.Close()) }()
	}
	info := mcp.Implementation{Name: cmp.Or(s.Name, strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe")),
		Version: cmp.Or(s.Version, "0")}
	server := rpc.NewServer(&rpc.Options{Info: info, Instructions: s.Instructions, Log: log})
	runner := run.NewRunner(run.Options{State: s.State, Log: log})
	defer runner.Close()
	methods.Register(server, runner)
	options := DefaultServeOptions()
	options.Log = log
	Serve(server, registry, runner, options)
	if s.HTTP != "" {
		return s.serveHTTP(ctx, server, registry, runner, log)
	}
	out := os.Stdout
	os.Stdout = os.Stderr
	defer func() { os.Stdout = out }()
	return server.Serve(ctx, os.Stdin, out)
}

// serveHTTP serves over HTTP until ctx ends.
func (s *Server) serveHTTP(ctx context.Context, server *rpc.Server, registry *Registry, runner *run.Runner,
	log zerolog.Logger) error {
	if !httpserver.Loopback(s.HTTP) {
		return fmt.Errorf("address %s: only one of this machine, such as 127.0.0.1:8080, may be served "+
			"without tokens and TLS; package rpc/http has both", s.HTTP)
	}
	served := httpserver.Served{Server: server, InputSchema: func(_ context.Context, tool string) []byte {
		if t := registry.Lookup(tool); t != nil {
			return t.Describe().InputSchema
		}
		return nil
	}}
	front, err := httpserver.Listen(ctx, s.HTTP, httpserver.Options{
		Serves:  func(string) (httpserver.Served, error) { return served, nil },
		Owner:   tasks.DefaultOwner,
		MaxLine: rpc.DefaultMaxLine, MaxInFlight: rpc.DefaultMaxInFlight, Drain: rpc.DefaultDrain, Log: log,
	})
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- front.Serve() }()
	select {
	case err = <-done:
	case <-ctx.Done():
	}
	front.Stop()
	runner.Close()
	front.Close()
	return err
}
