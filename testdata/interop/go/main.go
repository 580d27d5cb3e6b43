// The official Go SDK as a client of runnel: list, call, progress, cancel.
// Usage: go RUNNEL CONFIG. Exits 0 and prints what it saw, or 1 with the reason.
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

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := run(ctx, os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, program, config string) error {
	progress := make(chan *mcp.ProgressNotificationParams, 100)
	client := mcp.NewClient(&mcp.Implementation{Name: "interop", Version: "1"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { progress <- r.Params },
	})
	command := exec.Command(program, "--selftest", "--config", config)
	session, err := client.Connect(ctx, &mcp.CommandTransport{Command: command}, nil)
	if err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	if name := session.InitializeResult().ServerInfo.Name; name != "runnel" {
		return fmt.Errorf("server is %q", name)
	}
	tools := 0
	for tool, err := range session.Tools(ctx, nil) {
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

	if err := call(ctx, session, "echo", map[string]any{"text": "hé"}, "hé"); err != nil {
		return err
	}
	if err := call(ctx, session, "hello", map[string]any{"who": "you"}, "hello you\n"); err != nil {
		return err
	}
	result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "hello", Arguments: map[string]any{}})
	if err != nil || !result.IsError {
		return fmt.Errorf("bad arguments give %+v, %w", result, err)
	}

	params := &mcp.CallToolParams{Name: "test_tool_with_progress"}
	params.SetProgressToken("token")
	if _, err := session.CallTool(ctx, params); err != nil {
		return fmt.Errorf("progress: %w", err)
	}
	for _, want := range []float64{0, 50, 100} {
		select {
		case p := <-progress:
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
	if _, err := session.CallTool(short, &mcp.CallToolParams{Name: "sleep", Arguments: map[string]any{"ms": 3_600_000}}); !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("cancelled call gives %w", err)
	}
	if err := session.Ping(ctx, nil); err != nil {
		return fmt.Errorf("ping: %w", err)
	}
	if err := session.Close(); err != nil {
		return fmt.Errorf("closing: %w", err)
	}
	if code := command.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("exit code %d", code)
	}
	fmt.Println("listed, called, saw progress, cancelled with", session.InitializeResult().ProtocolVersion)
	return nil
}

func call(ctx context.Context, session *mcp.ClientSession, tool string, arguments map[string]any, want string) error {
	result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		return fmt.Errorf("calling %s: %w", tool, err)
	}
	text, ok := result.Content[0].(*mcp.TextContent)
	if !ok || text.Text != want {
		return fmt.Errorf("%s returns %+v, want %q", tool, result.Content, want)
	}
	return nil
}
