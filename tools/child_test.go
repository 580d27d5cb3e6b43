package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"runnel/rpc/mcp"
	"runnel/tasks"
)

// A call makes tasks of other tools: each has an id, a log and a result of its own, its tool runs from Begin
// on, and the call reads what it wrote.
func TestChildrenOfACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := &Registry{}
		begun := 0
		for _, tool := range []Tool{
			plain("say", func(_ context.Context, in *Call, out *Output) (*mcp.CallToolResult, error) {
				begun++
				var p struct{ What string }
				if err := in.Decode(&p); err != nil {
					return nil, err
				}
				fmt.Fprintf(out, "said %s", p.What)
				return mcp.Result("done with " + p.What), nil
			}),
			plain("parent", func(ctx context.Context, in *Call, _ *Output) (*mcp.CallToolResult, error) {
				before := begun
				a, err := in.MakeChild(ctx, "say", json.RawMessage(`{"what":"a"}`))
				if err != nil {
					return nil, err
				}
				never, err := in.MakeChild(ctx, "say", json.RawMessage(`{"what":"never"}`))
				if err != nil {
					return nil, err
				}
				time.Sleep(time.Second)
				if begun != before {
					t.Error("a child has begun before Begin")
				}
				a.Begin()
				never.Cancel("not needed")
				ended, cancelled := a.Wait(), never.Wait()
				if ended.ID == in.TaskID || cancelled.Status != mcp.TaskCancelled || begun != before+1 {
					t.Errorf("%s and %s, %d have begun", ended.ID, cancelled.Status, begun)
				}
				_, err = in.MakeChild(ctx, "nothing", nil)
				text, _ := mcp.TextOf(ended.Outcome.Result.Content[0])
				return mcp.Result(fmt.Sprintf("%s|%s|%s|%v", ended.Status, ended.LastLine(ctx), text, err)), nil
			}),
		} {
			if err := registry.Add(tool); err != nil {
				t.Fatal(err)
			}
		}
		c := serveRegistry(t, registry)
		for id := range 2 {
			c.callTool(id, "parent", "")
			want := `completed|said a|done with a|unknown tool: \"nothing\"`
			if got := c.response(); !strings.Contains(got, want) {
				t.Errorf("call %d: %s", id, got)
			}
		}
	})
}

// What a child asks is asked by the call, and children end with the task of the call.
func TestChildrenAskAndEndWithTheirCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := &Registry{}
		ended := make(chan tasks.Task, 2)
		for _, tool := range []Tool{
			plain("ask", func(ctx context.Context, in *Call, _ *Output) (*mcp.CallToolResult, error) {
				_, err := in.Ask(ctx, Question{Message: "Why?",
					Schema: json.RawMessage(`{"type":"object","properties":{}}`)})
				return nil, err
			}),
			plain("parent", func(ctx context.Context, in *Call, _ *Output) (*mcp.CallToolResult, error) {
				child, err := in.MakeChild(ctx, "ask", nil)
				if err != nil {
					return nil, err
				}
				child.Begin()
				go func() { ended <- child.Wait() }()
				<-ctx.Done()
				return nil, errors.New("cancelled")
			}),
		} {
			if err := registry.Add(tool); err != nil {
				t.Fatal(err)
			}
		}
		c := serveRegistry(t, registry)
		for id := range 2 {
			c.callTool(id, "parent", "")
			if got := c.response(); !strings.Contains(got, `"message":"Why?"`) {
				t.Errorf("not the question of the child: %s", got)
			}
		}
		_ = c.in.Close()
		for range 2 { // the client has gone, and with it the calls
			if child := <-ended; !child.Status.Terminal() {
				t.Errorf("a child is %s", child.Status)
			}
		}
	})
}

// A tool that calls itself comes to an end.
func TestChildrenAreNotEndless(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		again := func(ctx context.Context, in *Call, _ *Output) (*mcp.CallToolResult, error) {
			child, err := in.MakeChild(ctx, "again", nil)
			if err != nil {
				return nil, err
			}
			child.Begin()
			return child.Wait().Outcome.Result, nil
		}
		c := serveStateless(t, plain("again", again))
		for id := range 2 {
			c.callTool(id, "again", "")
			if got := c.response(); !strings.Contains(got, "8 tasks stand above it already") {
				t.Errorf("call %d: %s", id, got)
			}
		}
	})
}

// plain is a tool that takes any arguments.
func plain(name string, do func(context.Context, *Call, *Output) (*mcp.CallToolResult, error)) *Function {
	return &Function{Tool: mcp.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)}, Do: do}
}
