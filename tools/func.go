package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"

	"github.com/google/jsonschema-go/jsonschema"

	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

// Function is a Go function as a tool. [Func] and [FuncWith] make one.
type Function struct {
	Tool mcp.Tool // its entry in tools/list; may be changed until the tool is added to a Registry

	// Runs the tool: see Tool.Call.
	Do func(ctx context.Context, in *Call, out *Output) (*mcp.CallToolResult, error)

	input bool
}

// Func makes a tool from a Go function. The input schema comes from In, a struct: `json:"name,omitempty"`
// names an optional argument, `jsonschema:"text"` describes it. The tool may be called as a task. Clients get
// what f writes to out as it comes; declare a function that writes with Streams. If f returns neither a
// result nor an error, the result is what it has written to out.
//
//	tools.Func("greet", "Greets somebody.", func(ctx context.Context, in struct {
//		Name string `json:"name" jsonschema:"the name to greet"`
//	}, out *tools.Output) (*mcp.CallToolResult, error) {
//		return mcp.Result("Hello, " + in.Name + "!"), nil
//	})
//
// It panics if In cannot be described by a JSON Schema, which is a mistake in the program.
func Func[In any](name, description string,
	f func(ctx context.Context, in In, out *Output) (*mcp.CallToolResult, error)) *Function {
	entry := mcp.Tool{Name: name, Description: description,
		Execution: &mcp.ToolExecution{TaskSupport: mcp.TaskOptional}}
	return FuncWith(entry, func(ctx context.Context, _ *Call, in In,
		out *Output) (*mcp.CallToolResult, error) {
		return f(ctx, in, out)
	})
}

// FuncWith is Func for a function that needs its Call, or whose entry in tools/list says more. An entry
// without an input schema gets that of In; [ObjectSchema] writes a simple one that is not that of a struct.
func FuncWith[In any](entry mcp.Tool,
	f func(ctx context.Context, call *Call, in In, out *Output) (*mcp.CallToolResult, error)) *Function {
	if entry.InputSchema == nil {
		inferred, err := jsonschema.For[In](nil)
		if err != nil {
			panic(fmt.Sprintf("tool %q: no JSON Schema for its input: %v", entry.Name, err))
		}
		entry.InputSchema = rawjson.Encode(inferred)
	}
	return &Function{Tool: entry, Do: func(ctx context.Context, call *Call,
		out *Output) (*mcp.CallToolResult, error) {
		var in In
		if err := call.Decode(&in); err != nil {
			return nil, err
		}
		return f(ctx, call, in, out)
	}}
}

// ObjectSchema returns the JSON Schema of an object that may have the given properties and no others. Both
// parameters are JSON without the outer brackets: properties such as "a":{"type":"string"}, and the names of
// the required ones, such as "a".
func ObjectSchema(properties, required string) json.RawMessage {
	schema := `{"type":"object","properties":{` + properties + `}`
	if required != "" {
		schema += `,"required":[` + required + `]`
	}
	return json.RawMessage(schema + `,"additionalProperties":false}`)
}

// Streams tells clients that the function writes output while it runs: execution.streamPartial (SEP-2679, 3).
func (f *Function) Streams() *Function {
	execution := mcp.ToolExecution{TaskSupport: mcp.TaskOptional}
	if f.Tool.Execution != nil {
		execution = *f.Tool.Execution
	}
	execution.StreamPartial = true
	f.Tool.Execution = &execution
	return f
}

// TakesInput tells clients that the function reads [Call.Input]: send_to_task is listed, and sends it.
func (f *Function) TakesInput() *Function {
	f.input = true
	return f
}

// Traits implements Kind.
func (f *Function) Traits() Traits { return Traits{TakesInput: f.input} }

// Replace implements Kind.
func (f *Function) Replace(Tool) {}

// Describe implements Tool.
func (f *Function) Describe() mcp.Tool { return f.Tool }

// Call implements Tool.
func (f *Function) Call(ctx context.Context, in *Call, out *Output) (*mcp.CallToolResult, error) {
	return f.Do(ctx, in, out)
}

// Decode decodes the arguments into a struct, as encoding/json does.
func (c *Call) Decode(arguments any) error {
	err := json.Unmarshal(c.Arguments, arguments)
	if err != nil { // an integer may be written 1.0 (JSON Schema), which encoding/json does not accept
		err = json.Unmarshal(plainIntegers(c.Arguments), arguments)
	}
	if err != nil {
		return fmt.Errorf("reading the arguments: %w", err)
	}
	return nil
}

// plainIntegers rewrites the integers of a JSON value without fractions and exponents.
func plainIntegers(value json.RawMessage) json.RawMessage {
	d := json.NewDecoder(bytes.NewReader(value))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return value
	}
	return rawjson.Encode(withPlainIntegers(v))
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
		const exact = 1 << 53 // a float64 is exact for all integers up to here
		if n, err := v.Float64(); err == nil && n == math.Trunc(n) && math.Abs(n) <= exact {
			return int64(n)
		}
	}
	return v
}
