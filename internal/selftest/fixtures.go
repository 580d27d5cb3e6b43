package selftest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"sync"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tools"
)

// The specification's conformance suite expects the tools in this file on a server with tasks.

func fixture(name, description string, support mcp.TaskSupport, properties, required string,
	do do) *tools.Function {
	return written(name, "Conformance fixture: "+description, support, properties, required, do)
}

func greet(_ context.Context, in struct {
	Name string `json:"name"`
}, _ *tools.Output) (*mcp.CallToolResult, error) {
	return mcp.Result("Hello, " + in.Name + "!"), nil
}

func slowCompute(ctx context.Context, in struct {
	Seconds float64 `json:"seconds"`
	Label   string  `json:"label"`
}, _ *tools.Output) (*mcp.CallToolResult, error) {
	if err := wait(ctx, int(min(in.Seconds*1000, math.MaxInt32))); err != nil {
		return nil, err
	}
	return mcp.Result(fmt.Sprintf("computed %s for %v s", in.Label, in.Seconds)), nil
}

func failingJob(ctx context.Context, _ *tools.Call, _ *tools.Output) (*mcp.CallToolResult, error) {
	if err := wait(ctx, 1000); err != nil {
		return nil, err
	}
	return mcp.ErrorResult("the job failed"), nil
}

func protocolErrorJob(ctx context.Context, _ *tools.Call, _ *tools.Output) (*mcp.CallToolResult, error) {
	if err := wait(ctx, 200); err != nil {
		return nil, err
	}
	return nil, rpc.Errorf(mcp.CodeInternalError, "the job failed with a protocol error")
}

func confirmDelete(ctx context.Context, call *tools.Call, _ *tools.Output) (*mcp.CallToolResult, error) {
	var in struct{ Filename string }
	if err := call.Decode(&in); err != nil {
		return nil, err
	}
	answer, err := question(ctx, call, fmt.Sprintf("Really delete %s?", in.Filename), "confirm", "boolean")
	if err != nil {
		return nil, err
	}
	var content struct{ Confirm bool }
	_ = json.Unmarshal(answer.Content, &content)
	if answer.Action != mcp.ElicitAccept || !content.Confirm {
		return mcp.Result("Deletion cancelled"), nil
	}
	return mcp.Result("Deleted " + in.Filename), nil
}

func multiInput(ctx context.Context, call *tools.Call, _ *tools.Output) (*mcp.CallToolResult, error) {
	var wg sync.WaitGroup
	var answers [2]string
	var errs [2]error
	for i, what := range []string{"name", "color"} {
		wg.Go(func() { answers[i], errs[i] = askFor(ctx, call, what) })
	}
	wg.Wait()
	if err := cmp.Or(errs[0], errs[1]); err != nil {
		return nil, err
	}
	return mcp.Result(fmt.Sprintf("name: %s, color: %s", answers[0], answers[1])), nil
}

func testToolWithTask(ctx context.Context, call *tools.Call, _ *tools.Output) (*mcp.CallToolResult, error) {
	name, err := askFor(ctx, call, "user_name")
	if err != nil {
		return nil, err
	}
	if err := wait(ctx, 1000); err != nil {
		return nil, err
	}
	return mcp.Result("Hello, " + name + "! The task is done."), nil
}

// askFor asks for a text. The property of the answer is always called name, because the suite answers every
// question with that one.
func askFor(ctx context.Context, call *tools.Call, what string) (string, error) {
	answer, err := question(ctx, call, "Please enter "+what+".", "name", "string")
	if err != nil {
		return "", err
	}
	var content struct{ Name string }
	_ = json.Unmarshal(answer.Content, &content)
	if answer.Action != mcp.ElicitAccept {
		return "", fmt.Errorf("the user gave no %s", what)
	}
	return content.Name, nil
}

// question asks for an object with one property of the given type.
func question(ctx context.Context, call *tools.Call, message, name, kind string) (tools.Answer, error) {
	return call.Ask(ctx, tools.Question{
		Message: message,
		Schema: json.RawMessage(`{"type":"object","properties":{"` + name + `":{"type":"` + kind +
			`"}},"required":["` + name + `"]}`),
	})
}
