package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const missingCapability = -32021

// tasks speaks the tasks extension, which the SDK does not know, through its methods for custom requests. It
// polls: the SDK cannot subscribe to tasks.
func (p *program) tasks(ctx context.Context) error {
	capabilities := &mcp.ClientCapabilities{}
	capabilities.AddExtension("io.modelcontextprotocol/tasks", nil)
	w := &watch{}
	s, err := p.connect(ctx, &mcp.ClientOptions{Capabilities: capabilities}, "", func(c *mcp.Client) {
		for _, err := range []error{
			mcp.AddSendingCustomMethod[*taskParams, *task](c, "tasks/get"),
			mcp.AddSendingCustomMethod[*taskParams, *empty](c, "tasks/update"),
			mcp.AddSendingCustomMethod[*taskParams, *empty](c, "tasks/cancel"),
		} {
			if err != nil {
				panic(err)
			}
		}
	}, w)
	if err != nil {
		return err
	}
	if err := s.call(ctx, "echo", map[string]any{"text": "soon"}, "soon"); err != nil {
		return err
	}

	id, err := s.start(ctx, w, "stream", map[string]any{"count": 40, "intervalMs": 10})
	if err != nil {
		return err
	}
	if err := s.ends(ctx, id, "completed", "streamed 40 chunks"); err != nil {
		return err
	}

	// A question of a task, seen by polling.
	if id, err = s.start(ctx, w, "confirm_delete", map[string]any{"filename": "a.txt"}); err != nil {
		return err
	}
	asking, err := s.poll(ctx, id, func(t *task) bool { return t.Status == "input_required" })
	if err != nil {
		return err
	}
	answers := map[string]any{}
	for key := range asking.InputRequests {
		answers[key] = map[string]any{"action": "accept", "content": map[string]any{"confirm": true}}
	}
	if _, err := mcp.CallCustomMethod[*taskParams, *empty](ctx, s.ClientSession, "tasks/update",
		&taskParams{TaskID: id, InputResponses: answers}); err != nil {
		return fmt.Errorf("tasks/update: %w", err)
	}
	if err := s.ends(ctx, id, "completed", "Deleted a.txt"); err != nil {
		return err
	}

	// A question before there is a task: the SDK answers it by itself and calls again.
	if id, err = s.start(ctx, w, "test_tool_with_task", nil); err != nil {
		return err
	}
	if err := s.ends(ctx, id, "completed", "Hello, Ada!"); err != nil {
		return err
	}

	if id, err = s.start(ctx, w, "protocol_error_job", nil); err != nil {
		return err
	}
	if err := s.ends(ctx, id, "failed", "protocol error"); err != nil {
		return err
	}

	if id, err = s.start(ctx, w, "sleep", map[string]any{"ms": 3_600_000}); err != nil {
		return err
	}
	if _, err := mcp.CallCustomMethod[*taskParams, *empty](ctx, s.ClientSession, "tasks/cancel",
		&taskParams{TaskID: id}); err != nil {
		return fmt.Errorf("tasks/cancel: %w", err)
	}
	if err := s.ends(ctx, id, "cancelled", ""); err != nil {
		return err
	}
	return s.end()
}

// start calls a tool whose answer is a task and returns its id. The SDK takes the answer for a result without
// content.
func (s *session) start(ctx context.Context, w *watch, tool string,
	arguments map[string]any) (string, error) {
	if arguments == nil {
		arguments = map[string]any{}
	}
	if _, err := s.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: arguments}); err != nil {
		return "", fmt.Errorf("calling %s: %w", tool, err)
	}
	var handle struct {
		ResultType string `json:"resultType"`
		task
	}
	if err := json.Unmarshal(w.result, &handle); err != nil || handle.ResultType != "task" ||
		handle.Status != "working" {
		return "", fmt.Errorf("%s gives no task: %s", tool, w.result)
	}
	return handle.TaskID, nil
}

// ends polls until the task has ended, with this status and text.
func (s *session) ends(ctx context.Context, id, status, text string) error {
	t, err := s.poll(ctx, id, func(t *task) bool {
		return t.Status != "working" &&
			t.Status != "input_required"
	})
	if err != nil {
		return err
	}
	if t.Status != status || !strings.Contains(string(t.Result)+string(t.Error), text) {
		return fmt.Errorf("task ends as %+v, want %s with %q", t, status, text)
	}
	return nil
}

func (s *session) poll(ctx context.Context, id string, enough func(*task) bool) (*task, error) {
	for {
		t, err := mcp.CallCustomMethod[*taskParams, *task](ctx, s.ClientSession, "tasks/get",
			&taskParams{TaskID: id})
		if err != nil {
			return nil, fmt.Errorf("tasks/get: %w", err)
		}
		if enough(t) {
			return t, nil
		}
		if t.PollIntervalMs <= 0 {
			return nil, errors.New("the task does not say how often to poll")
		}
		select {
		case <-time.After(time.Duration(t.PollIntervalMs) * time.Millisecond):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

type taskParams struct {
	mcp.ParamsBase
	TaskID         string         `json:"taskId"`
	InputResponses map[string]any `json:"inputResponses,omitempty"`
}

type task struct {
	mcp.ResultBase
	TaskID         string                     `json:"taskId"`
	Status         string                     `json:"status"`
	PollIntervalMs int64                      `json:"pollIntervalMs"`
	InputRequests  map[string]json.RawMessage `json:"inputRequests"`
	Result         json.RawMessage            `json:"result"`
	Error          json.RawMessage            `json:"error"`
}

type empty struct{ mcp.ResultBase }

// watch is a transport that keeps the last result that came in, of which the SDK shows only what it knows.
type watch struct {
	mcp.Transport
	result json.RawMessage
}

func (w *watch) Connect(ctx context.Context) (mcp.Connection, error) {
	c, err := w.Transport.Connect(ctx)
	return &watched{c, w}, err
}

type watched struct {
	mcp.Connection
	watch *watch
}

// Read happens before the call that it answers returns.
func (c *watched) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := c.Connection.Read(ctx)
	if r, ok := m.(*jsonrpc.Response); ok {
		c.watch.result = r.Result
	}
	return m, err
}
