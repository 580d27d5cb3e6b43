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

// Before 2026-07-28 structured content is an object, and so is what an output schema describes: one tool of
// another kind, from an upstream of the new version, would spoil the whole list for a client that checks it.
func TestDressStructured(t *testing.T) {
	for _, c := range []struct {
		version, schema, content string
		text                     []mcp.ContentBlock
		wantSchema, want         string
	}{
		{"2025-06-18", `{"type":"array"}`, `[1]`, nil, ``, `{"content":[{"type":"text","text":"[1]"}]}`},
		{"2025-11-25", `{"type":"array"}`, `[1]`, nil, ``, `{"content":[{"type":"text","text":"[1]"}]}`},
		{"2025-11-25", `{"anyOf":[]}`, `"a"`, []mcp.ContentBlock{mcp.Text("said")}, ``,
			`{"content":[{"type":"text","text":"said"}]}`},
		{"2025-11-25", `true`, `null`, []mcp.ContentBlock{mcp.Text("said")}, ``,
			`{"content":[{"type":"text","text":"said"}]}`},
		{"2025-11-25", `{"x":{"type":"array"},"type":"object"}`, `{"a":1}`, nil,
			`{"x":{"type":"array"},"type":"object"}`, `{"content":null,"structuredContent":{"a":1}}`},
		{"2025-03-26", `{"type":"object"}`, `{"a":1}`, nil, ``,
			`{"content":[{"type":"text","text":"{\"a\":1}"}]}`},
		{"2026-07-28", `{"type":"array"}`, `[1]`, nil, `{"type":"array"}`,
			`{"content":null,"structuredContent":[1]}`},
		{"2026-07-28", `{"type":"object"}`, ``, nil, `{"type":"object"}`, `{"content":null}`},
	} {
		v := mcp.LookupVersion(c.version)
		tool := dressTool(v, mcp.Tool{OutputSchema: json.RawMessage(c.schema)})
		result := dressResult(v, &mcp.CallToolResult{Content: c.text,
			StructuredContent: json.RawMessage(c.content)})
		got, err := json.Marshal(result)
		if string(tool.OutputSchema) != c.wantSchema || err != nil || string(got) != c.want {
			t.Errorf("%s, %s, %s: schema %s, result %s, %v", c.version, c.schema, c.content,
				tool.OutputSchema, got, err)
		}
	}
}

// Whichever way the result goes out, it is one that the version can hold.
func TestDressEveryWay(t *testing.T) {
	array := &Function{
		Tool: mcp.Tool{Name: "tool", InputSchema: json.RawMessage(`{"type":"object"}`),
			Execution: &mcp.ToolExecution{TaskSupport: mcp.TaskOptional}},
		Do: func(context.Context, *Call, *Output) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{StructuredContent: json.RawMessage("[1]")}, nil
		},
	}
	c := serveStateless(t, array)
	send := func(format string, a ...any) string {
		t.Helper()
		if _, err := fmt.Fprintf(c.in, format+"\n", a...); err != nil {
			t.Fatal(err)
		}
		return c.response()
	}
	send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}`)
	plain := send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"tool"}}`)
	immediate := send(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"tool","task":{"responseModes":["immediate"]}}}`)
	partial := send(`{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"tool","_meta":{"progressToken":1,"partialResults":true}}}`)
	handle := send(`{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"tool","task":{}}}`)
	id := regexp.MustCompile(`"taskId":"([^"]+)"`).FindStringSubmatch(handle)
	if id == nil {
		t.Fatal(handle)
	}
	task := send(`{"jsonrpc":"2.0","id":5,"method":"tasks/result","params":{"taskId":%q}}`, id[1])
	for _, result := range []string{plain, immediate, partial, task} {
		if strings.Contains(result, "structuredContent") ||
			!strings.Contains(result, `"content":[{"type":"text","text":"[1]"}]`) {
			t.Errorf("got %s", result)
		}
	}
}

// A field of several choices is shown to clients of the versions that have it. Who asks another one is told
// why it cannot be.
func TestQuestionOfSeveralChoices(t *testing.T) {
	for version, want := range map[string]string{
		"2025-06-18": `"text":"this client cannot ask its user: protocol version 2025-06-18 has no field of several choices"`,
		"2025-11-25": `"method":"elicitation/create"`,
	} {
		c := serveStateless(t, &Function{
			Tool: mcp.Tool{Name: "tool", InputSchema: json.RawMessage(`{"type":"object"}`)},
			Do: func(ctx context.Context, call *Call, _ *Output) (*mcp.CallToolResult, error) {
				schema := `{"type":"object","properties":{"why":{"type":"string"},"tags":{"type":"array","items":{"type":"string","enum":["a","b"]}}}}`
				_, err := call.Ask(ctx, Question{Message: "Which?", Schema: json.RawMessage(schema)})
				return mcp.Result("asked"), err
			},
		})
		for _, line := range []string{
			`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"` + version +
				`","capabilities":{"elicitation":{}}}}`,
			`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"tool"}}`,
		} {
			if _, err := fmt.Fprintln(c.in, line); err != nil {
				t.Fatal(err)
			}
		}
		c.next()
		if got := c.next(); !strings.Contains(got, want) {
			t.Errorf("%s: %s", version, got)
		}
	}
}
