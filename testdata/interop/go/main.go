// The official Go SDK as a client of runnel, in both eras: how it finds the era and falls back; list, call,
// progress,
// cancel, questions, a subscription, and the tasks extension as far as the SDK lets it be spoken.
// Usage: go serve (see there), go RUNNEL CONFIG, or go URL CONFIG for a runnel that serves HTTP with that
// config. Exits 0 and prints what it saw, or 1 with the reason.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	handshake = "2025-11-25"
	stateless = "2026-07-28"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == "serve" {
		fmt.Fprintln(os.Stderr, serve())
		os.Exit(1)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	p := &program{name: os.Args[1], config: os.Args[2]}
	for _, part := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"handshake era", p.handshake}, {"stateless era", p.stateless}, {"corrected version", p.corrected},
		{"fall back", p.fallBack}, {"tasks", p.tasks}, {"resumption", p.resumption},
	} {
		if err := part.run(ctx); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", part.name, err)
			os.Exit(1)
		}
		fmt.Println(part.name, "works")
	}
}

// program is what is tested.
type program struct {
	name, config string
}

// session is a connection to a process of its own.
type session struct {
	*mcp.ClientSession
	command  *exec.Cmd // nil over HTTP
	progress chan *mcp.ProgressNotificationParams
}

// connect starts the program. use, if not nil, changes the client before it connects; watch, if not nil, sees
// what comes in.
func (p *program) connect(ctx context.Context, o *mcp.ClientOptions, version string, use func(*mcp.Client),
	watch *watch) (*session, error) {
	s := &session{progress: make(chan *mcp.ProgressNotificationParams, 100)}
	o.ProgressNotificationHandler = func(_ context.Context,
		r *mcp.ProgressNotificationClientRequest) {
		s.progress <- r.Params
	}
	o.ElicitationHandler = func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		content := map[string]any{}
		schema, _ := r.Params.RequestedSchema.(map[string]any)
		properties, _ := schema["properties"].(map[string]any)
		for name := range properties {
			content[name] = "Ada"
		}
		return &mcp.ElicitResult{Action: "accept", Content: content}, nil
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "interop", Version: "1"}, o)
	if use != nil {
		use(client)
	}
	var transport mcp.Transport
	if p.overHTTP() {
		transport = &mcp.StreamableClientTransport{Endpoint: p.name}
	} else {
		s.command = exec.Command(p.name, "--selftest", "--config", p.config)
		transport = &mcp.CommandTransport{Command: s.command}
	}
	if watch != nil {
		watch.Transport = transport
		transport = watch
	}
	var err error
	s.ClientSession, err = client.Connect(ctx, transport, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		return nil, fmt.Errorf("connecting: %w", err)
	}
	if name := s.InitializeResult().ServerInfo.Name; name != "runnel" {
		return nil, fmt.Errorf("server is %q", name)
	}
	return s, nil
}

// speaks checks the version that was found.
func (s *session) speaks(want string) error {
	if got := s.InitializeResult().ProtocolVersion; got != want {
		return fmt.Errorf("version is %s, want %s", got, want)
	}
	return nil
}

// end closes the connection; the program must exit by itself.
func (s *session) end() error {
	if err := s.Close(); err != nil {
		return fmt.Errorf("closing: %w", err)
	}
	if s.command == nil {
		return nil
	}
	if code := s.command.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("exit code %d", code)
	}
	return nil
}

// works exercises what both eras have.
func (s *session) works(ctx context.Context) error {
	tools := 0
	for tool, err := range s.Tools(ctx, nil) {
		if err != nil {
			return fmt.Errorf("listing: %w", err)
		}
		if tool.Name == "echo" || tool.Name == "hello" {
			tools++
		}
	}
	if tools != 2 {
		return fmt.Errorf("echo and hello are not both listed")
	}
	for _, c := range []struct {
		tool      string
		arguments map[string]any
		want      string
	}{
		{"echo", map[string]any{"text": "hé"}, "hé"},
		{"hello", map[string]any{"who": "you"}, "hello you\n"},
		{"ask", map[string]any{"message": "Who?"}, "accepted: Ada"},
		{"test_tool_with_task", nil, "Hello, Ada! The task is done."},
	} {
		if err := s.call(ctx, c.tool, c.arguments, c.want); err != nil {
			return err
		}
	}
	result, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "hello", Arguments: map[string]any{}})
	if err != nil || !result.IsError {
		return fmt.Errorf("bad arguments give %+v, %w", result, err)
	}

	params := &mcp.CallToolParams{Name: "test_tool_with_progress"}
	params.SetProgressToken("token")
	if _, err := s.CallTool(ctx, params); err != nil {
		return fmt.Errorf("progress: %w", err)
	}
	for _, want := range []float64{0, 50, 100} {
		select {
		case p := <-s.progress:
			if p.Progress != want || p.Total != 100 || p.ProgressToken != "token" {
				return fmt.Errorf("progress is %+v, want %v of 100", p, want)
			}
		case <-ctx.Done():
			return fmt.Errorf("progress %v of 100 has not come", want)
		}
	}

	// A call whose context ends is cancelled, and the session goes on.
	short, stop := context.WithTimeout(ctx, 100*time.Millisecond)
	defer stop()
	if _, err := s.CallTool(short,
		&mcp.CallToolParams{Name: "sleep", Arguments: map[string]any{"ms": 3_600_000}}); !errors.Is(err,
		context.DeadlineExceeded) {
		return fmt.Errorf("cancelled call gives %w", err)
	}
	return s.call(ctx, "echo", map[string]any{"text": "on"}, "on")
}

func (s *session) call(ctx context.Context, tool string, arguments map[string]any, want string) error {
	if arguments == nil {
		arguments = map[string]any{}
	}
	result, err := s.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		return fmt.Errorf("calling %s: %w", tool, err)
	}
	if len(result.Content) == 0 {
		return fmt.Errorf("%s returns no content", tool)
	}
	text, ok := result.Content[0].(*mcp.TextContent)
	if !ok || text.Text != want {
		return fmt.Errorf("%s returns %+v, want %q", tool, result.Content[0], want)
	}
	return nil
}
