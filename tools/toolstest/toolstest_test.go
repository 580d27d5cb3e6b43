package toolstest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks"
	"runnel/tools"
)

func TestCall(t *testing.T) {
	t.Parallel()
	type input struct {
		To int `json:"to" jsonschema:"how far"`
	}
	count := func(_ context.Context, in input, out *tools.Output) (*mcp.CallToolResult, error) {
		for n := range in.To {
			_, _ = fmt.Fprintln(out, n+1)
			out.Progress(float64(n+1), float64(in.To), "counting")
		}
		if in.To > 3 {
			return nil, errors.New("too far")
		}
		return nil, nil
	}
	for _, tool := range []tools.Tool{
		tools.Func("count", "Counts.", count),
		tools.FuncWith(mcp.Tool{Name: "count"}, func(ctx context.Context, _ *tools.Call, in input, out *tools.Output) (*mcp.CallToolResult, error) {
			return count(ctx, in, out)
		}).Streams(),
	} {
		if schema := string(tool.Describe().InputSchema); !strings.Contains(schema, `"how far"`) {
			t.Errorf("the input schema is %s", schema)
		}
		for range 2 {
			got := Call(t, tool, input{To: 2})
			if got.IsError || got.Text() != "1\n2\n" || got.Output != "1\n2\n" || len(got.Progress) != 2 || got.Progress[1] != (tasks.Progress{Done: 2, Total: 2, Message: "counting"}) {
				t.Errorf("%+v, %q, %q, %v", got.CallToolResult, got.Text(), got.Output, got.Progress)
			}
			if got := Call(t, tool, input{To: 4}); !got.IsError || got.Text() != "too far" {
				t.Errorf("an error is the result %+v", got.CallToolResult)
			}
			if got := Call(t, tool, map[string]any{"to": "far"}); !got.IsError || got.Output != "" {
				t.Errorf("wrong arguments give %+v", got.CallToolResult)
			}
		}
	}
}

// What was written is the result only of a tool that returns none: items and text in order, and of a long output the beginning with a link to the rest.
func TestWrittenIsTheResult(t *testing.T) {
	t.Parallel()
	tool := tools.Func("write", "", func(_ context.Context, in struct{ Long bool }, out *tools.Output) (*mcp.CallToolResult, error) {
		_ = out.WriteString("before")
		_, _ = out.Stderr().Write([]byte("aside"))
		_ = out.Content(mcp.Image([]byte("png"), "image/png"))
		_ = out.WriteString("after")
		if in.Long {
			_ = out.WriteString(strings.Repeat("long ", 1<<20))
		}
		return nil, nil
	})
	for range 2 {
		short := Call(t, tool, map[string]any{"Long": false})
		if len(short.Content) != 3 || short.Text() != "beforeafter" || rawjson.StringMember(short.Content[1], "type") != "image" {
			t.Errorf("the result is %s", short.Content)
		}
		long := Call(t, tool, map[string]any{"Long": true})
		if text := long.Text(); !strings.HasPrefix(text, "beforeafter") || len(text) > 1<<20 {
			t.Errorf("the result has %d items, %.100q", len(long.Content), text)
		}
	}
}
