package toolstest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
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
		tools.FuncWith(mcp.Tool{Name: "count"}, func(ctx context.Context, _ *tools.Call, in input,
			out *tools.Output) (*mcp.CallToolResult, error) {
			return count(ctx, in, out)
		}).Streams(),
	} {
		if schema := string(tool.Describe().InputSchema); !strings.Contains(schema, `"how far"`) {
			t.Errorf("the input schema is %s", schema)
		}
		for range 2 {
			got := Call(t, tool, input{To: 2})
			if got.IsError || got.Text() != "1\n2\n" || got.Output != "1\n2\n" || len(got.Progress) != 2 ||
				got.Progress[1] != (tasks.Progress{Done: 2, Total: 2, Message: "counting"}) {
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

// What was written is the result only of a tool that returns none: items and text in order, and of a long
// output the beginning with a link to the rest.
func TestWrittenIsTheResult(t *testing.T) {
	t.Parallel()
	tool := tools.Func("write", "", func(_ context.Context, in struct{ Long bool },
		out *tools.Output) (*mcp.CallToolResult, error) {
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
		if len(short.Content) != 3 || short.Text() != "beforeafter" ||
			rawjson.StringMember(short.Content[1], "type") != "image" {
			t.Errorf("the result is %s", short.Content)
		}
		long := Call(t, tool, map[string]any{"Long": true})
		if text := long.Text(); !strings.HasPrefix(text, "beforeafter") || len(text) > 1<<20 {
			t.Errorf("the result has %d items, %.100q", len(long.Content), text)
		}
	}
}

// notedTest is a test that notes what is said of it.
type notedTest struct {
	testing.TB
	said strings.Builder
}

func (n *notedTest) Logf(format string, args ...any) {
	_, _ = fmt.Fprintf(&n.said, format+"\n", args...)
}
func (n *notedTest) Fatalf(format string, args ...any) {
	n.Logf(format, args...)
	runtime.Goexit()
}

// A panic fails the test, which shows where it came from.
func TestPanicHasItsStack(t *testing.T) {
	t.Parallel()
	tool := tools.Func("broken", "", func(context.Context, struct{},
		*tools.Output) (*mcp.CallToolResult, error) {
		panic("of this tool")
	})
	for range 2 {
		noted, ended := &notedTest{TB: t}, make(chan struct{})
		go func() { defer close(ended); Call(noted, tool, nil) }()
		<-ended
		said := noted.said.String()
		if !strings.Contains(said, "broken panicked: of this tool") ||
			!strings.Contains(said, "TestPanicHasItsStack") || !strings.Contains(said, "internal error") {
			t.Errorf("said: %s", said)
		}
	}
}
