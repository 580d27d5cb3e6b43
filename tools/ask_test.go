package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tasks/run"
)

// A question that comes when the input has ended is not asked at all: nobody hears of one that is withdrawn
// at once.
func TestNothingIsAskedAfterTheEndOfTheInput(t *testing.T) {
	ways := map[string]func(ctx context.Context, call *Call) error{
		"form": func(ctx context.Context, call *Call) error {
			_, err := call.Ask(ctx, Question{Message: "Why?"})
			return err
		},
		"other": func(ctx context.Context, call *Call) error {
			_, err := call.Request(ctx, "sampling/createMessage", json.RawMessage(`{}`))
			return err
		},
	}
	for name, ask := range ways {
		t.Run(name, func(t *testing.T) {
			var asked error
			told := -1
			registry := &Registry{}
			_ = registry.Add(&Function{
				Tool: mcp.Tool{Name: "tool", InputSchema: json.RawMessage(`{"type":"object"}`)},
				Do: func(ctx context.Context, call *Call, _ *Output) (*mcp.CallToolResult, error) {
					<-call.Caller().InputEnded()
					changed, stop := call.run.Watch()
					defer stop()
					asked, told = ask(ctx, call), len(changed)
					return mcp.Result("done"), nil
				},
			})
			srv := rpc.NewServer(&rpc.Options{Drain: -1})
			runner := run.NewRunner(run.Options{})
			Serve(srv, registry, runner, ServeOptions{})
			const line = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"tool","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"sampling":{}}}}}`
			var out bytes.Buffer
			if err := srv.Serve(t.Context(), strings.NewReader(line+"\n"), &out); err != nil {
				t.Fatal(err)
			}
			runner.Close()
			if asked != errNobody || told != 0 || !strings.Contains(out.String(), `"done"`) {
				t.Errorf("asked: %v, told: %d times; the client read %s", asked, told, out.String())
			}
		})
	}
}
