package inputs

import (
	"errors"
	"slices"
	"testing"

	"runnel/tools/config"
)

// A keyword of JSON Schema has one spelling; encoding/json would take Default for default.
func TestInputsReadKeywordsAsTheyAreSpelt(t *testing.T) {
	in, err := Parse(config.Object(`{"a":{"Type":"array","DEFAULT":1},"b":{"type":"array","default":null},"c":true,"\u0064":{"default":[2]}}`), []string{"d"})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(in.Names, []string{"a", "b", "c", "d"}) || in.arrays["a"] || !in.arrays["b"] {
		t.Errorf("%+v", in)
	}
	if in.Defaults["a"] != nil || string(in.Defaults["b"]) != "null" || string(in.Defaults["d"]) != "[2]" {
		t.Errorf("defaults: %s", in.Defaults)
	}
	for input, key := range map[string]string{`{"a":[]}`: "input.a",
		`{"type":"object","properties":[]}`: "input.properties"} {
		_, err := Parse(config.Object(input), nil)
		var wrong *config.Error
		if !errors.As(err, &wrong) || wrong.Key != key {
			t.Errorf("%s: %v, want a mistake of %s", input, err, key)
		}
	}
}

// A default belongs to the config: reading it for one call leaves it as it is for the next.
func TestDefaultsServeEveryCall(t *testing.T) {
	in, err := Parse(config.Object(`{"p":{"type":"array","items":{"type":"string"},"default":["./...","-v"]}}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	for call := range 3 {
		args, err := in.Arguments(nil)
		if err != nil || !slices.Equal(args["p"].Values, []string{"./...", "-v"}) {
			t.Errorf("call %d: %q, %v", call+1, args["p"].Values, err)
		}
	}
	if got := string(in.Defaults["p"]); got != `["./...","-v"]` {
		t.Errorf("the default has become %s", got)
	}
}
