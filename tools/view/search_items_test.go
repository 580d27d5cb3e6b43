package view_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tasks/methods"
	"runnel/tasks/run"
	"runnel/tools"
	"runnel/tools/view"
)

// A search that goes on after a match in an item, whose text is shorter than the item, finds each line once.
func TestSearchGoesOnAfterAnItem(t *testing.T) {
	w := &world{t: t, srv: rpc.NewServer(nil), runner: run.NewRunner(run.Options{})}
	t.Cleanup(w.runner.Close)
	registry := &tools.Registry{}
	hold := make(chan struct{})
	if err := registry.Add(tools.Func("say",
		"", func(_ context.Context, _ struct{}, out *tools.Output) (*mcp.CallToolResult, error) {
			for n := range 4 {
				if err := out.Content(mcp.Text(fmt.Sprintf("error %d", n))); err != nil {
					return nil, err
				}
			}
			<-hold
			return nil, nil
		})); err != nil {
		t.Fatal(err)
	}
	methods.Register(w.srv, w.runner)
	tools.Serve(w.srv, registry, w.runner, tools.ServeOptions{App: view.App(w.runner, nil)})
	c := w.dial("2025-11-25", shows)
	done := c.begin(args{})
	id := c.mine(args{})
	close(hold)
	<-done
	type matches struct {
		Matches []struct {
			Position int64
			Line     string
		}
		Next *int64
	}
	var lines []string
	for at, calls := int64(0), 0; calls < 20; calls++ {
		m := get[matches](c, "view_search", args{"taskId": id, "pattern": "error", "after": at, "max": 1})
		for _, found := range m.Matches {
			lines = append(lines, found.Line)
		}
		if m.Next == nil {
			break
		}
		at = *m.Next
	}
	if want := []string{"error 0", "error 1", "error 2", "error 3"}; !slices.Equal(lines, want) {
		t.Errorf("%q, want %q", lines, want)
	}
}
