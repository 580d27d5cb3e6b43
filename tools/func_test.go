package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"runnel/rpc/mcp"
)

// An integer by the schema is an integer for the function, however it is written.
func TestFuncTakesIntegersAsTheyAreWritten(t *testing.T) {
	var got []int64
	f := Func("f", "", func(_ context.Context, in struct {
		N    int64   `json:"n"`
		List []int64 `json:"list,omitempty"`
	}, _ *Output) (*mcp.CallToolResult, error) {
		got = append([]int64{in.N}, in.List...)
		return mcp.Result(""), nil
	})
	for arguments, want := range map[string][]int64{
		`{"n":1}`: {1}, `{"n":1.0,"list":[2,3.0,-4e0]}`: {1, 2, 3, -4}, `{"n":1e3}`: {1000},
		`{"n":9007199254740993}`: {9007199254740993},
	} {
		if _, err := f.Call(t.Context(), &Call{Arguments: json.RawMessage(arguments)}, nil); err != nil ||
			len(got) != len(want) || got[0] != want[0] || got[len(got)-1] != want[len(want)-1] {
			t.Errorf("%s: %v, %v", arguments, got, err)
		}
	}
	for _, arguments := range []string{`{"n":1.5}`, `{"n":"1.0"}`, `{"n":1e99}`} {
		if _, err := f.Call(t.Context(), &Call{Arguments: json.RawMessage(arguments)}, nil); err == nil {
			t.Errorf("%s is taken", arguments)
		}
	}
}

// runnel's own tools get what a call means. A tool of another server gets what the client has sent.
func TestArgumentsAsAModelSendsThem(t *testing.T) {
	called := make(chan string, 1)
	tool := FuncWith(mcp.Tool{Name: "tool",
		InputSchema: ObjectSchema(`"n":{"type":"integer"},"list":{"type":"array"},"text":{"type":"string"}`,
			`"n"`)},
		func(_ context.Context, call *Call, _ struct{}, _ *Output) (*mcp.CallToolResult, error) {
			called <- string(call.Arguments)
			return mcp.Result(""), nil
		})
	joined := &Registry{}
	joined.Join([]Tool{tool})
	for server, want := range map[*statelessClient]string{
		serveStateless(t, tool):  `{"n":3,"list":["a"]}`,
		serveRegistry(t, joined): `{"n":"3","list":"[\"a\"]","text":null}`,
	} {
		for i := range 2 {
			server.call(i, `,"arguments":{"n":"3","list":"[\"a\"]","text":null}`)
			if got := <-called; got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			server.response()
		}
	}
}

// A tool may return the same result each time, also to calls side by side: it stays as it is, and so do the
// bytes behind its items.
func TestSharedResultStaysAsItIs(t *testing.T) {
	link := mcp.Text("behind the result")
	items := []mcp.ContentBlock{mcp.Text("one"), link}
	shared, empty := &mcp.CallToolResult{Content: items[:1], Meta: map[string]any{"a": "b"}},
		&mcp.CallToolResult{}
	tool := FuncWith(mcp.Tool{Name: "tool", InputSchema: ObjectSchema(`"empty":{"type":"boolean"}`, "")},
		func(_ context.Context, call *Call, in struct{ Empty bool }, _ *Output) (*mcp.CallToolResult, error) {
			if call.Said.Truncated = true; in.Empty {
				return empty, nil
			}
			return shared, nil
		})
	server := serveStateless(t, tool)
	answers := map[string]int{}
	for i := range 20 {
		server.call(i, fmt.Sprintf(`,"arguments":{"empty":%t}`, i%2 == 0))
	}
	for range 20 {
		_, result, _ := strings.Cut(server.response(), `"result":`)
		answers[regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}`).ReplaceAllString(result, "ID")]++
	}
	if len(answers) != 2 {
		t.Errorf("answers differ: %v", answers)
	}
	if len(shared.Content) != 1 || len(shared.Meta) != 1 || empty.Content != nil ||
		string(items[1]) != string(link) {
		t.Errorf("the result became %s, %v, %v", items, shared.Meta, empty.Content)
	}
}
