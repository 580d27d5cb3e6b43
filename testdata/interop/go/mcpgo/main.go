// Mark3labs/mcp-go as a client of runnel, in both eras: list, call, progress, questions, cancel, a
// subscription, and tasks as far as it has them. Usage: mcpgo RUNNEL CONFIG, or mcpgo URL CONFIG for a runnel
// that serves HTTP with that config. Exits 0 and prints what it saw, or 1 with the reason.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

const (
	handshake = "2025-11-25"
	stateless = "2026-07-28"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, version := range []string{handshake, stateless} {
		if err := works(ctx, os.Args[1], os.Args[2], version); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", version, err)
			os.Exit(1)
		}
		fmt.Println(version, "works")
	}
}

// session is a connection, and the notifications that have come.
type session struct {
	*client.Client
	came chan mcp.JSONRPCNotification
}

// answers answers all questions.
type answers struct{}

func (answers) Elicit(_ context.Context, r mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	content := map[string]any{}
	schema, _ := r.Params.RequestedSchema.(map[string]any)
	properties, _ := schema["properties"].(map[string]any)
	for name := range properties {
		content[name] = "Ada"
	}
	return &mcp.ElicitationResult{ElicitationResponse: mcp.ElicitationResponse{Action: mcp.ElicitationResponseActionAccept, Content: content}}, nil
}

func connect(ctx context.Context, program, config, version string) (*session, error) {
	var via transport.Interface = transport.NewStdio(program, nil, "--selftest", "--config", config)
	if strings.HasPrefix(program, "http") {
		var options []transport.StreamableHTTPCOption
		if version == handshake {
			options = append(options, transport.WithContinuousListening())
		}
		var err error
		if via, err = transport.NewStreamableHTTP(program, options...); err != nil {
			return nil, err
		}
	}
	s := &session{client.NewClient(via, client.WithProtocolVersion(version),
		client.WithElicitationHandler(answers{})), make(chan mcp.JSONRPCNotification, 100)}
	s.OnNotification(func(n mcp.JSONRPCNotification) { s.came <- n })
	if err := s.Start(ctx); err != nil {
		return nil, fmt.Errorf("starting: %w", err)
	}
	r := mcp.InitializeRequest{}
	r.Params.ProtocolVersion, r.Params.ClientInfo = version, mcp.Implementation{Name: "interop", Version: "1"}
	result, err := s.Initialize(ctx, r)
	switch {
	case err != nil:
		return nil, fmt.Errorf("connecting: %w", err)
	case result.ServerInfo.Name != "runnel" || s.ProtocolVersion() != version:
		return nil, fmt.Errorf("server is %q with %s", result.ServerInfo.Name, s.ProtocolVersion())
	}
	return s, nil
}

// works exercises what a version has.
func works(ctx context.Context, program, config, version string) error {
	s, err := connect(ctx, program, config, version)
	if err != nil {
		return err
	}
	defer s.Close()
	list, err := s.ListTools(ctx, mcp.ListToolsRequest{})
	if err != nil || len(list.Tools) < 10 {
		return fmt.Errorf("listing: %+v, %w", list, err)
	}
	for _, c := range []struct {
		tool      string
		arguments map[string]any
		want      string
	}{
		{"echo", map[string]any{"text": "hé"}, "hé"},
		{"hello", map[string]any{"who": "you"}, "hello you\n"},
		{"ask", map[string]any{"message": "Who?"}, "accepted: Ada"},
	} {
		if err := s.call(ctx, c.tool, c.arguments, c.want); err != nil {
			return err
		}
	}
	r := mcp.CallToolRequest{}
	r.Params.Name, r.Params.Meta = "test_tool_with_progress", &mcp.Meta{ProgressToken: "token"}
	if _, err := s.CallTool(ctx, r); err != nil {
		return fmt.Errorf("progress: %w", err)
	}
	for _, want := range []float64{0, 50, 100} {
		n, err := s.next(ctx, "notifications/progress")
		if err != nil || n.Params.AdditionalFields["progress"] != want ||
			n.Params.AdditionalFields["progressToken"] != "token" {
			return fmt.Errorf("progress is %+v, want %v: %w", n.Params, want, err)
		}
	}

	// A call whose context ends is cancelled, and the session goes on.
	short, stop := context.WithTimeout(ctx, 100*time.Millisecond)
	defer stop()
	r = mcp.CallToolRequest{}
	r.Params.Name, r.Params.Arguments = "sleep", map[string]any{"ms": 3_600_000}
	if _, err := s.CallTool(short, r); !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("a cancelled call gives %w", err)
	}
	if version == handshake {
		err = s.task(ctx)
	} else {
		err = s.subscribed(ctx, config)
	}
	return errors.Join(err, s.call(ctx, "echo", map[string]any{"text": "on"}, "on"))
}

func (s *session) call(ctx context.Context, tool string, arguments map[string]any, want string) error {
	r := mcp.CallToolRequest{}
	r.Params.Name, r.Params.Arguments = tool, arguments
	result, err := s.CallTool(ctx, r)
	if err != nil {
		return fmt.Errorf("calling %s: %w", tool, err)
	}
	return says(tool, result.Content, want)
}

func says(tool string, content []mcp.Content, want string) error {
	if len(content) == 1 {
		if text, ok := content[0].(mcp.TextContent); ok && text.Text == want {
			return nil
		}
	}
	return fmt.Errorf("%s returns %+v, want %q", tool, content, want)
}

// next waits for a notification.
func (s *session) next(ctx context.Context, method string) (mcp.JSONRPCNotification, error) {
	for {
		select {
		case n := <-s.came:
			if n.Method == method {
				return n, nil
			}
		case <-ctx.Done():
			return mcp.JSONRPCNotification{}, fmt.Errorf("no %s has come", method)
		}
	}
}

// task is one of the handshake era. The client has no call that begins one.
func (s *session) task(ctx context.Context) error {
	response, err := s.GetTransport().
		SendRequest(ctx, transport.JSONRPCRequest{JSONRPC: "2.0", ID: mcp.NewRequestId("task"),
			Method: "tools/call",
			Params: map[string]any{"name": "must", "task": map[string]any{}}})
	if err != nil {
		return err
	}
	var created mcp.CreateTaskResult
	if err := json.Unmarshal(response.Result, &created); err != nil || created.Task.TaskId == "" {
		return fmt.Errorf("no task: %s, %w", response.Result, err)
	}
	get := mcp.GetTaskRequest{}
	get.Params.TaskId = created.Task.TaskId
	ended, err := s.WaitForTask(ctx, get, 50*time.Millisecond)
	if err != nil || ended.Status != mcp.TaskStatusCompleted {
		return fmt.Errorf("the task ends with %+v, %w", ended, err)
	}
	fetch := mcp.TaskResultRequest{}
	fetch.Params.TaskId = created.Task.TaskId
	result, err := s.TaskResult(ctx, fetch)
	if err != nil {
		return fmt.Errorf("tasks/result: %w", err)
	}
	all, err := s.ListTasks(ctx, mcp.ListTasksRequest{})
	if err != nil || len(all.Tasks) == 0 {
		return fmt.Errorf("tasks/list: %+v, %w", all, err)
	}
	return says("must", result.Content, "ran\n")
}

// subscribed is told of a tool that the config gets.
func (s *session) subscribed(ctx context.Context, config string) error {
	stop, err := s.ListenAsync(ctx, mcp.SubscriptionFilter{ToolsListChanged: true},
		func(err error) { fmt.Fprintln(os.Stderr, "listening:", err) })
	if err != nil {
		return err
	}
	defer stop()
	if _, err := s.next(ctx, "notifications/subscriptions/acknowledged"); err != nil {
		return err
	}
	file, err := os.OpenFile(config, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString("  added:\n    command: [echo, added]\n")
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	if _, err := s.next(ctx, "notifications/tools/list_changed"); err != nil {
		return err
	}
	return s.call(ctx, "added", nil, "added\n")
}
