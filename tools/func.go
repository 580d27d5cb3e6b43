package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"reflect"

	"github.com/google/jsonschema-go/jsonschema"

	"runnel/rpc/mcp"
)

// Function is a Go function as a tool.
type Function struct {
	Tool mcp.Tool // what tools/list shows; may be changed until the tool is added to a Registry

	begin func(in *Call) begun
}

// begun is a call whose arguments have been read.
type begun func(ctx context.Context, out *Output) (*mcp.CallToolResult, error)

// Func makes a tool of a Go function. The input schema comes from In, a struct: `json:"name,omitempty"`
// names an argument that may be missing, `jsonschema:"text"` describes it. The tool may be
// called as a task. Clients get what f writes to out as it comes; a function that writes says so with Streams.
//
//	tools.Func("greet", "Greets somebody.", func(ctx context.Context, in struct {
//		Name string `json:"name" jsonschema:"whom to greet"`
//	}, out *tools.Output) (*mcp.CallToolResult, error) {
//		return mcp.Result("Hello, " + in.Name + "!"), nil
//	})
//
// It panics if In cannot be described by a JSON Schema, a mistake in the program.
func Func[In any](name, description string, f func(ctx context.Context, in In, out *Output) (*mcp.CallToolResult, error)) *Function {
	inferred, err := jsonschema.For[In](nil)
	if err != nil {
		panic(fmt.Sprintf("tools.Func(%q): no JSON Schema for its input: %v", name, err))
	}
	input, err := json.Marshal(inferred)
	if err != nil {
		panic(fmt.Sprintf("tools.Func(%q): %v", name, err))
	}
	return &Function{
		Tool: mcp.Tool{
			Name:        name,
			Description: description,
			InputSchema: input,
			Execution:   &mcp.ToolExecution{TaskSupport: mcp.TaskOptional},
		},
		begin: typed(f),
	}
}

// typed reads the arguments for f.
func typed[In any](f func(ctx context.Context, in In, out *Output) (*mcp.CallToolResult, error)) func(*Call) begun {
	plain := plainStructOf(reflect.TypeFor[In]())
	return func(call *Call) begun {
		in, err := readArguments[In](call.Arguments, plain)
		return func(ctx context.Context, out *Output) (*mcp.CallToolResult, error) {
			if err != nil {
				return nil, err
			}
			return f(ctx, in, out)
		}
	}
}

func readArguments[In any](arguments json.RawMessage, plain plainStruct) (in In, err error) {
	if plain.read(arguments, reflect.ValueOf(&in).Elem()) {
		return in, nil
	}
	err = json.Unmarshal(arguments, &in)
	if err != nil { // an integer may be written 1.0 (JSON Schema), which encoding/json does not take for one
		err = json.Unmarshal(plainIntegers(arguments), &in)
	}
	if err != nil {
		return in, fmt.Errorf("reading the arguments: %w", err)
	}
	return in, nil
}

// untyped is for an f that reads its arguments itself.
func untyped(f func(ctx context.Context, in *Call, out *Output) (*mcp.CallToolResult, error)) func(*Call) begun {
	return func(in *Call) begun {
		return func(ctx context.Context, out *Output) (*mcp.CallToolResult, error) { return f(ctx, in, out) }
	}
}

// Streams tells clients that the function writes output while it runs: execution.streamPartial (SEP-2679, 3).
func (f *Function) Streams() *Function {
	f.Tool.Execution.StreamPartial = true
	return f
}

// Describe implements Tool.
func (f *Function) Describe() mcp.Tool { return f.Tool }

// Call implements Tool.
func (f *Function) Call(ctx context.Context, in *Call, out *Output) (*mcp.CallToolResult, error) {
	return f.begin(in)(ctx, out)
}

// plainIntegers writes the integers of a JSON value without a fraction or an exponent.
func plainIntegers(value json.RawMessage) json.RawMessage {
	d := json.NewDecoder(bytes.NewReader(value))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return value
	}
	plain, err := json.Marshal(withPlainIntegers(v))
	if err != nil {
		return value
	}
	return plain
}

func withPlainIntegers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, part := range v {
			v[name] = withPlainIntegers(part)
		}
	case []any:
		for i, part := range v {
			v[i] = withPlainIntegers(part)
		}
	case json.Number:
		const exact = 1 << 53 // up to here a float64 holds every integer
		if n, err := v.Float64(); err == nil && n == math.Trunc(n) && math.Abs(n) <= exact {
			return int64(n)
		}
	}
	return v
}
