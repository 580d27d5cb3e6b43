package tools

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"runnel/partials"
	"runnel/rpc/mcp"
)

// What is an integer by the schema is one for the function, however it is written.
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
		`{"n":1}`: {1}, `{"n":1.0,"list":[2,3.0,-4e0]}`: {1, 2, 3, -4}, `{"n":1e3}`: {1000}, `{"n":9007199254740993}`: {9007199254740993},
	} {
		if _, err := f.Call(t.Context(), &Call{Arguments: json.RawMessage(arguments)}, nil); err != nil || len(got) != len(want) || got[0] != want[0] || got[len(got)-1] != want[len(want)-1] {
			t.Errorf("%s: %v, %v", arguments, got, err)
		}
	}
	for _, arguments := range []string{`{"n":1.5}`, `{"n":"1.0"}`, `{"n":1e99}`} {
		if _, err := f.Call(t.Context(), &Call{Arguments: json.RawMessage(arguments)}, nil); err == nil {
			t.Errorf("%s is taken", arguments)
		}
	}
}

// The schemas that are written down, to save a start, name the arguments that the functions read.
func TestWrittenSchemasAreThoseOfTheFunctions(t *testing.T) {
	inferred := map[string]*Function{
		"echo": Func("", "", echo), "stream": Func("", "", stream), "sleep": Func("", "", sleep), "fail": Func("", "", fail), "blob": Func("", "", blob),
	}
	type schema struct {
		Type                 string
		Properties           map[string]struct{ Type string }
		Required             []string
		AdditionalProperties bool
	}
	read := func(source json.RawMessage) (s schema) {
		s.AdditionalProperties = true
		if err := json.Unmarshal(source, &s); err != nil {
			t.Errorf("%s: %v", source, err)
		}
		return s
	}
	for _, tool := range SelfTest() {
		spec := tool.Describe()
		got := read(spec.InputSchema)
		if f := inferred[spec.Name]; f != nil {
			delete(inferred, spec.Name)
			if want := read(f.Tool.InputSchema); !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %+v, want %+v", spec.Name, got, want)
			}
		}
	}
	if len(inferred) > 0 {
		t.Errorf("no such tools: %v", inferred)
	}
}

// A client is told that a tool streams only where it does: others would be asked for a stream that never comes.
func TestStreamPartialIsDeclaredByWhatStreams(t *testing.T) {
	var streams []string
	for _, tool := range SelfTest() {
		if spec := tool.Describe(); spec.Execution.StreamPartial {
			streams = append(streams, spec.Name)
		}
	}
	if got, want := strings.Join(streams, " "), "stream fail blob"; got != want {
		t.Errorf("streamPartial: %s, want %s", got, want)
	}
}

// A stream that nobody holds up ends with its context: when the client has gone while it wrote all the time, nothing but that ends it.
func TestStreamEndsWithItsContext(t *testing.T) {
	for name, in := range map[string]streamInput{"flat out": {Count: math.MaxInt}, "now and then": {Count: math.MaxInt, IntervalMs: 1}, "seldom": {Count: 2, IntervalMs: math.MaxInt}} {
		t.Run(name, func(t *testing.T) {
			why := errors.New("stopped")
			ctx, cancel := context.WithCancelCause(t.Context())
			ended := make(chan error)
			go func() {
				log := partials.NewLog(&partials.LogOptions{Retain: 1})
				_, err := stream(ctx, in, NewOutput(ctx, log, nil))
				ended <- err
			}()
			cancel(why)
			select {
			case err := <-ended:
				if !errors.Is(err, why) {
					t.Errorf("it ended with %v", err)
				}
			case <-time.After(10 * time.Second):
				t.Fatal("it goes on")
			}
		})
	}
}
