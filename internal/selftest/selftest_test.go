package selftest

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
	"runnel/tools"
)

// The schemas that are written down, to save a start, name the arguments that the functions read.
func TestWrittenSchemasAreThoseOfTheFunctions(t *testing.T) {
	inferred := map[string]*tools.Function{
		"echo": tools.Func("", "", echo), "stream": tools.Func("", "", stream),
		"sleep": tools.Func("", "", sleep), "fail": tools.Func("", "", fail),
		"blob": tools.Func("", "", blob),
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
	for _, tool := range Tools() {
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

// A client is told that a tool streams only where it does: others would be asked for a stream that never
// comes.
func TestStreamPartialIsDeclaredByWhatStreams(t *testing.T) {
	var streams []string
	for _, tool := range Tools() {
		if spec := tool.Describe(); spec.Execution.StreamPartial {
			streams = append(streams, spec.Name)
		}
	}
	if got, want := strings.Join(streams, " "), "stream fail blob"; got != want {
		t.Errorf("streamPartial: %s, want %s", got, want)
	}
}

// A stream that nobody holds up ends with its context: when the client has gone while it wrote all the time,
// nothing but that ends it.
func TestStreamEndsWithItsContext(t *testing.T) {
	for name, in := range map[string]streamInput{"flat out": {Count: math.MaxInt},
		"now and then": {Count: math.MaxInt, IntervalMs: 1}, "seldom": {Count: 2, IntervalMs: math.MaxInt}} {
		t.Run(name, func(t *testing.T) {
			why := errors.New("stopped")
			ctx, cancel := context.WithCancelCause(t.Context())
			ended := make(chan error)
			go func() {
				log := partials.NewLog(&partials.LogOptions{Retain: 1})
				_, err := stream(ctx, in, tools.NewOutput(ctx, log, nil))
				ended <- err
			}()
			cancel(why)
			select {
			case err := <-ended:
				if !errors.Is(err, why) {
					t.Errorf("it ended with %v", err)
				}
			case <-time.After(time.Minute):
				t.Fatal("it goes on")
			}
		})
	}
}
